"""Replies of `/generate`, nested as SGLang nests them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spader_slime.local.engine.jobs import Result
from spader_slime.local.engine.stops import output_text

Triple = list[Any]  # [log-prob, token id, text or None]


def make_reply(result: Result, tokenizer: Any) -> dict[str, Any]:
    """The reply to one sequence."""
    request = result.request
    text = (
        ""
        if tokenizer is None
        else output_text(tokenizer, result.ids, request.params, result.reason)
    )
    meta: dict[str, Any] = {
        "id": request.rid,
        "finish_reason": result.reason,
        "prompt_tokens": len(request.input_ids),
        "completion_tokens": len(result.ids),
        "cached_tokens": result.cached,
        "weight_version": result.version,
        "e2e_latency": result.seconds,
    }
    if request.return_logprob:
        meta |= _log_probs(result, _texts(tokenizer) if request.texts else lambda token: None)
    return {"text": text, "output_ids": result.ids, "meta_info": meta}


def _log_probs(result: Result, text: Callable[[int], str | None]) -> dict[str, Any]:
    request, prompt = result.request, result.request.input_ids
    own = zip(result.log_probs, result.ids, strict=True)
    meta: dict[str, Any] = {"output_token_logprobs": _triples(list(own), text)}
    scored = request.score_from < len(prompt)
    first = [(None, int(prompt[request.score_from]))] if scored else []
    meta["input_token_logprobs"] = _triples([*first, *result.input.tokens], text)
    empty = [None] if scored else []
    if request.top_num:
        meta["input_top_logprobs"] = [*empty, *(_triples(t, text) for t in result.input.top)]
        meta["output_top_logprobs"] = [_triples(t, text) for t in result.output.top]
    if request.token_ids:
        asked = (_triples(t, text) for t in result.input.asked)
        meta["input_token_ids_logprobs"] = [*empty, *asked]
        meta["output_token_ids_logprobs"] = [_triples(t, text) for t in result.output.asked]
    return meta


def _triples(
    scored: Sequence[tuple[float | None, int]], text: Callable[[int], str | None]
) -> list[Triple]:
    return [[log_prob, token, text(token)] for log_prob, token in scored]


def _texts(tokenizer: Any) -> Callable[[int], str | None]:
    return lambda token: str(tokenizer.decode([token], skip_special_tokens=False))
