"""A teacher's reply, read: every entry is there, finite, and of the token it should be of."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import torch
from numpy.typing import NDArray
from torch import Tensor

from spader_slime.agent.http import HttpFault
from spader_slime.agent.teacher_wire import PIECE_BYTES, Asked, cut
from spader_slime.algorithms.distillation import entropy_from_top_k
from spader_slime.algorithms.teacher_scores import TeacherScores, response_log_probs
from spader_slime.errors import DataError

Triples = NDArray[np.float64]  # [T, K, 3]: log-prob, id, nothing


def read_scores(body: bytes, asked: Asked) -> TeacherScores:
    """Scores of the response; weights are 1, gates 0.

    The entropy is the server's own where its reply has `input_token_entropy` (nats, one per scored
    position), else `entropy_from_top_k`, which is too small by at most `entropy_gap`.

    Raises:
        HttpFault: of kind "malformed", "status" (aborted), "length", "not_finite" or "vocabulary".
    """
    try:
        meta, top_TK3 = _parse(body, asked.top_k)
        own_T = _own(meta, asked)
        ids_TK, log_probs_TK = _top(top_TK3, asked)
        entropy_T = _entropy(meta.get("input_token_entropy"), log_probs_TK, asked.length)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise _unreadable(body, error) from error
    weight_T = torch.ones(asked.length)
    zeros = torch.zeros(asked.length)
    return TeacherScores(own_T, entropy_T, weight_T, zeros, ids_TK, log_probs_TK.float())


def _unreadable(body: bytes, error: Exception) -> HttpFault:
    if isinstance(error, orjson.JSONDecodeError) and (b"NaN" in body or b"Infinity" in body):
        return HttpFault("not_finite", "the reply holds NaN or Infinity", True)
    return HttpFault("malformed", f"the reply can't be read: {error!r}", True)


def _parse(body: bytes, top_k: int) -> tuple[dict[str, Any], Triples]:
    """`meta_info`, and the top-k triples without the first position."""
    split = cut(body) if len(body) > PIECE_BYTES else None
    if split is None:
        meta = _meta(body)
        return meta, _triples(meta["input_top_logprobs"][1:], top_k)
    rest, pieces = split
    meta = _meta(rest)
    return meta, np.concatenate([_triples(orjson.loads(piece), top_k) for piece in pieces])


def _meta(body: bytes) -> dict[str, Any]:
    meta: dict[str, Any] = orjson.loads(body)["meta_info"]
    finish = meta.get("finish_reason") or {}
    if finish.get("type") == "abort":
        raise HttpFault("status", f"aborted: {finish.get('message')}", True)
    return meta


def _triples(rows: list[Any], top_k: int) -> Triples:
    """float64 [T, K, 3]; null is NaN."""
    if not rows:
        return np.zeros((0, top_k, 3))
    try:
        found = np.array(rows, dtype=np.float64)
    except ValueError:
        found = np.zeros(0)
    if found.shape == (len(rows), top_k, 3):
        return found
    if any(row is None for row in rows):
        raise HttpFault("not_finite", "a position has no top-k scores", True)
    if any(len(row) != top_k for row in rows):
        raise HttpFault("length", f"a position has not {top_k} top-k scores", True)
    raise ValueError("top-k scores must be [log-prob, id, null]")


def _own(meta: dict[str, Any], asked: Asked) -> Tensor:
    """Log-probs of the response's own tokens."""
    entries, start = meta["input_token_logprobs"], asked.prompt_len - 1
    if len(entries) != asked.length + 1:
        message = f"{len(entries)} scores for {asked.length + 1} tokens"
        raise HttpFault("length", message, True)
    try:
        own_T = response_log_probs(asked.ids, asked.prompt_len, start, entries)
    except DataError as error:
        same = [entry[1] for entry in entries[1:]] == asked.ids[asked.prompt_len :]
        raise HttpFault("not_finite" if same else "malformed", str(error), True) from error
    return _finite(own_T)


def _top(top_TK3: Triples, asked: Asked) -> tuple[Tensor, Tensor]:
    """Ids, int64, and log-probs, float64, of the k most probable tokens."""
    if len(top_TK3) != asked.length:
        message = f"{len(top_TK3)} top-k scores for {asked.length} tokens"
        raise HttpFault("length", message, True)
    log_probs_TK = _finite(torch.from_numpy(top_TK3[..., 0].copy()))
    ids_TK = _finite(torch.from_numpy(top_TK3[..., 1].copy()))
    if bool((ids_TK != ids_TK.trunc()).any()):
        raise ValueError("token ids must be integers")
    if bool(((ids_TK < 0) | (ids_TK >= asked.vocab)).any()):
        worst = int(ids_TK[(ids_TK < 0) | (ids_TK >= asked.vocab)][0])
        raise HttpFault("vocabulary", f"id {worst} is outside 0 to {asked.vocab - 1}", False)
    return ids_TK.long(), log_probs_TK


def _entropy(given: Any, log_probs_TK: Tensor, length: int) -> Tensor:
    if given is None:
        return entropy_from_top_k(log_probs_TK).float()
    if len(given) != length + 1:
        raise HttpFault("length", f"{len(given)} entropies for {length + 1} tokens", True)
    return _finite(torch.from_numpy(np.array(given[1:], dtype=np.float64))).float()


def _finite(values: Tensor) -> Tensor:
    """`values`, all of which float32 can hold."""
    if not bool(values.float().isfinite().all()):
        raise HttpFault("not_finite", "scores that are missing or not finite", True)
    return values
