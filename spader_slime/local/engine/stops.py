"""Where an output ends, and the text it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spader_slime.local.engine.params import SamplingParams

Reason = dict[str, Any]  # SGLang's finish_reason
_BROKEN = "\N{REPLACEMENT CHARACTER}"  # what a part of a character decodes to


class StopStrings:
    """Finds a few strings in outputs that grow token by token.

    Most tokens can't complete any of the strings, because their own text lacks the strings' last
    characters. That is remembered per token, so that text is decoded only where it may matter.
    """

    def __init__(self, strings: Sequence[str], tokenizer: Any) -> None:
        self._strings, self._tokenizer = tuple(strings), tokenizer
        self._last = {string[-1] for string in strings}
        self._always = any(last.isspace() for last in self._last)  # decoders may strip spaces
        self._tail = 4 * max(map(len, strings)) + 4  # tokens; a character has four bytes at most
        self._may_end: dict[int, bool] = {}

    def find(self, ids: Sequence[int]) -> str | None:
        """The string that the last of `ids` completed, if any."""
        may_end = self._may_end.get(ids[-1])
        if may_end is None:
            may_end = self._may_end[ids[-1]] = self._judge(ids[-1])
        if not may_end:
            return None
        text = self._decode(ids[-self._tail :])
        return next((string for string in self._strings if string in text), None)

    @property
    def tail(self) -> int:
        """`find` looks at so many tokens at most."""
        return self._tail

    def _judge(self, token: int) -> bool:
        text = self._decode([token])
        return self._always or not text or _BROKEN in text or not self._last.isdisjoint(text)

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))


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
