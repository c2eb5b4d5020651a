"""What `/generate` is asked: SGLang's request fields, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spader_slime.local.engine.params import RequestError, SamplingParams, parse_params
from spader_slime.local.engine.prompts import Limits, read_ids, read_prompts, read_rids

_PER_ITEM = {
    "sampling_params": None,
    "return_logprob": False,
    "logprob_start_len": -1,
    "top_logprobs_num": 0,
    "token_ids_logprob": None,
}
_SHARED = {"return_text_in_logprobs": False, "stream": False}
_IGNORED = {"session_id", "session_params", "priority", "routing_key", "log_metrics", "model"}
_UNSUPPORTED = "this engine does not support"


@dataclass(frozen=True)
class GenerateRequest:
    """One sequence to sample.

    Attributes:
        input_ids: the prompt, int64 [P].
        return_logprob: whether log-probs are wanted at all.
        score_from: prompt positions from here on are scored (P: none of them).
        top_num: so many best tokens per position.
        token_ids: ids whose log-prob is wanted at every position.
        texts: whether triples carry the token's text.
    """

    rid: str
    input_ids: NDArray[np.int64]
    params: SamplingParams
    return_logprob: bool = False
    score_from: int = 0
    top_num: int = 0
    token_ids: tuple[int, ...] = ()
    texts: bool = False


def parse_generate(body: Any, limits: Limits) -> tuple[list[GenerateRequest], bool]:
    """The sequences of a `/generate` body, and whether they came as a list.

    Raises:
        RequestError: a field is unknown, malformed or unsupported, or the request can't fit.
    """
    if not isinstance(body, dict):
        raise RequestError("the body must be a JSON object")
    _check_names(body)
    prompts, batched = read_prompts(body, limits)
    rids = read_rids(body.get("rid"), len(prompts), batched)
    return [
        _request(rids[i], prompts[i], _item(body, i, len(prompts), batched), limits)
        for i in range(len(prompts))
    ], batched


def _check_names(body: Mapping[str, Any]) -> None:
    known = {"text", "input_ids", "rid", *_PER_ITEM, *_SHARED, *_IGNORED}
    for name, value in body.items():
        if name not in known and value not in (None, False, [], {}):
            raise RequestError(f"{_UNSUPPORTED} the field '{name}'")
    if body.get("stream"):
        raise RequestError(f"{_UNSUPPORTED} streaming")


def _item(body: Mapping[str, Any], index: int, count: int, batched: bool) -> dict[str, Any]:
    """Prompt `index`'s own values of the fields that may be lists."""
    fields: dict[str, Any] = {n: body.get(n, default) for n, default in _SHARED.items()}
    for name, default in _PER_ITEM.items():
        value = body.get(name, default)
        nested = name == "token_ids_logprob"  # a list in itself
        if batched and isinstance(value, list) and not (nested and not _lists(value)):
            if len(value) != count:
                raise RequestError(f"'{name}' has {len(value)} items for {count} prompts")
            value = value[index]
        fields[name] = default if value is None else value
    return fields


def _lists(value: list[Any]) -> bool:
    return any(isinstance(v, list) for v in value)


def _request(
    rid: str, prompt: NDArray[np.int64], fields: Mapping[str, Any], limits: Limits
) -> GenerateRequest:
    params = parse_params(fields["sampling_params"] or {}, limits.vocab)
    if params.stop and limits.tokenizer is None:
        raise RequestError("the model has no tokenizer: stop strings can't be found")
    given = "max_new_tokens" in (fields["sampling_params"] or {})
    start = _number(fields, "logprob_start_len", -1, len(prompt))
    return GenerateRequest(
        rid,
        prompt,
        params.fitted(len(prompt), limits.context, given),
        return_logprob=_flag(fields, "return_logprob"),
        score_from=len(prompt) if start < 0 else start,
        top_num=_number(fields, "top_logprobs_num", 0, limits.vocab),
        token_ids=_token_ids(fields["token_ids_logprob"], limits.vocab),
        texts=_flag(fields, "return_text_in_logprobs") and limits.tokenizer is not None,
    )


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    if not isinstance(fields[name], bool):
        raise RequestError(f"'{name}' must be true or false")
    return bool(fields[name])


def _number(fields: Mapping[str, Any], name: str, low: int, high: int) -> int:
    value = fields[name]
    if type(value) is not int or not low <= value <= high:
        raise RequestError(f"'{name}' must be an integer from {low} to {high}")
    return value


def _token_ids(ids: Any, vocab: int) -> tuple[int, ...]:
    return tuple(read_ids(ids, vocab).tolist()) if ids else ()
