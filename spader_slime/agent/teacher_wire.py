"""What a teacher is asked, SGLang's /generate as a scorer, and the text of its reply in pieces.

A reply of 30,000 tokens with 16 triples each is 16 MB of JSON. Parsed in one go it would hold the
interpreter for 0.3 s, whatever thread that is in; in pieces it never holds it for long, and no more
than one piece exists as Python objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

PIECE_BYTES = 2**16
_ENTRY_BYTES = 64  # of a reply, at most, per [log-prob, id, text or null]
_SPARE_BYTES = 2**20  # for all that does not grow with the request
_TOP = b'"input_top_logprobs":['


@dataclass(frozen=True)
class Asked:
    """One trajectory to be scored.

    Attributes:
        ids: prompt and response.
        prompt_len: of these, at least 1.
        top_k: most probable tokens wanted per position.
        vocab: ids are below this.
    """

    ids: list[int]
    prompt_len: int
    top_k: int
    vocab: int

    @property
    def length(self) -> int:
        """Tokens of the response."""
        return len(self.ids) - self.prompt_len

    @property
    def reply_limit(self) -> int:
        """Bytes of a reply that are read at most."""
        entries = (self.length + 2) * (self.top_k + 2)
        return _SPARE_BYTES + entries * _ENTRY_BYTES

    def body(self, **more: Any) -> bytes:
        """The request. Scores begin one token before the response: the first is always empty."""
        start = self.prompt_len - 1
        return scoring(self.ids, logprob_start_len=start, top_logprobs_num=self.top_k, **more)


def scoring(ids: Sequence[int], **more: Any) -> bytes:
    """A request that scores `ids` and samples nothing."""
    params = {"max_new_tokens": 0, "temperature": 0, **more.pop("sampling_params", {})}
    fields = {"input_ids": ids, "sampling_params": params, "return_logprob": True}
    return orjson.dumps(fields | more)


def cut(body: bytes) -> tuple[bytes, Iterator[bytes]] | None:
    """The reply without its `input_top_logprobs`, and these as JSON lists of at most a piece.

    The first, empty position is left out. None where they are not laid out as SGLang does: compact,
    no text in the triples.
    """
    found = body.find(_TOP)
    start = found + len(_TOP)
    end = body.find(b"]]]", start) + 2
    if found < 0 or end < 2 or not body.startswith(b"null,[[", start):
        return None
    return body[:start] + body[end:], _pieces(body, start + len(b"null,"), end)


def _pieces(body: bytes, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        border = body.find(b"]],[[", start + PIECE_BYTES, end)
        stop = end if border < 0 else border + 2
        yield b"[" + body[start:stop] + b"]"
        start = stop + 1
