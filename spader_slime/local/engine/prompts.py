"""The prompts of a `/generate` body."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spader_slime.local.engine.params import RequestError


@dataclass(frozen=True)
class Limits:
    """What requests are checked against.

    Attributes:
        context: input tokens plus `max_new_tokens` must stay below it.
        vocab: ids are in 0..vocab-1.
        tokenizer: of the model's folder, or None (then no text goes in or out).
    """

    context: int
    vocab: int
    tokenizer: Any


def read_prompts(body: Mapping[str, Any], limits: Limits) -> tuple[list[NDArray[np.int64]], bool]:
    """The prompts of a body as ids, and whether they came as a list.

    Raises:
        RequestError: there are none, or they can't be read.
    """
    text, ids = body.get("text"), body.get("input_ids")
    if (text is None) == (ids is None):
        raise RequestError("give either 'text' or 'input_ids'")
    if text is not None:
        batched = isinstance(text, list)
        if not text:
            raise RequestError("'text' is empty")
        return [_encode(t, limits) for t in (text if batched else [text])], batched
    if not isinstance(ids, list) or not ids:
        raise RequestError("'input_ids' must be a non-empty list")
    batched = isinstance(ids[0], list)
    return [read_ids(i, limits.vocab) for i in (ids if batched else [ids])], batched


def _encode(text: Any, limits: Limits) -> NDArray[np.int64]:
    if limits.tokenizer is None:
        raise RequestError("the model has no tokenizer: send 'input_ids'")
    if not isinstance(text, str):
        raise RequestError("'text' must be a string or a list of strings")
    return read_ids(limits.tokenizer.encode(text), limits.vocab)


def read_ids(ids: Any, vocab: int) -> NDArray[np.int64]:
    """A non-empty list of token ids below `vocab`, or `RequestError`."""
    if not isinstance(ids, list) or not ids:
        raise RequestError("a prompt must hold at least one token")
    if not all(type(i) is int for i in ids):
        raise RequestError("token ids must be integers")
    if min(ids) < 0 or max(ids) >= vocab:
        raise RequestError(f"a token id is outside the vocabulary (0 to {vocab - 1})")
    return np.asarray(ids, dtype=np.int64)


def read_rids(rid: Any, count: int, batched: bool) -> list[str]:
    """One request id per prompt, made up where none is given."""
    if rid is None:
        return [uuid.uuid4().hex for _ in range(count)]
    if isinstance(rid, str):
        return [f"{rid}_{i}" for i in range(count)] if batched else [rid]
    if not isinstance(rid, list) or len(rid) != count or not all(isinstance(r, str) for r in rid):
        raise RequestError("'rid' must be a string, or a list with one string per prompt")
    return rid
