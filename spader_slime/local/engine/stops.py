"""When an output is complete, and the text it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spader_slime.local.engine.params import SamplingParams

Reason = dict[str, Any]  # SGLang's finish_reason


class Stops:
    """Decides after every token of one output whether it goes on.

    Args:
        params: of the request.
        end_ids: the model's own end tokens.
        tokenizer: reads the output where stop strings are given.
    """

    def __init__(self, params: SamplingParams, end_ids: frozenset[int], tokenizer: Any) -> None:
        self._params, self._tokenizer = params, tokenizer
        own = frozenset(params.stop_token_ids)
        self._ids = frozenset() if params.ignore_eos else own | end_ids
        self._tail = 2 * max(map(len, params.stop), default=0) + 8  # tokens that may hold a stop

    def check(self, ids: Sequence[int]) -> Reason | None:
        """The reason to end after the last of `ids`, or None."""
        if ids[-1] in self._ids:
            return {"type": "stop", "matched": ids[-1]}
        if self._params.stop:
            text = self._tokenizer.decode(ids[-self._tail :], skip_special_tokens=False)
            matched = next((stop for stop in self._params.stop if stop in text), None)
            if matched is not None:
                return {"type": "stop", "matched": matched}
        if len(ids) >= self._params.max_new_tokens:
            return {"type": "length", "length": len(ids)}
        return None


def output_text(tokenizer: Any, ids: Sequence[int], params: SamplingParams, reason: Reason) -> str:
    """Text of an output: without what it was stopped at, unless `no_stop_trim`."""
    matched = reason.get("matched")
    if isinstance(matched, int) and not params.no_stop_trim:
        ids = ids[:-1]
    text: str = tokenizer.decode(
        list(ids),
        skip_special_tokens=params.skip_special_tokens,
        spaces_between_special_tokens=params.spaces_between_special_tokens,
    )
    if isinstance(matched, str) and not params.no_stop_trim:
        text = text.partition(matched)[0]
    return text
