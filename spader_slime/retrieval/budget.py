"""One character budget for all documents of a call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from spader_slime.retrieval.passages import Hit


@dataclass(frozen=True)
class Shown:
    """What a call shows: documents per query, and a note when something was cut."""

    hits: list[list[Hit]]
    note: str | None = None


def share(found: Sequence[Sequence[Hit]], max_chars: int | None) -> Shown:
    """Fill the budget rank by rank: every query's first document, then every second, and so on.

    The document that does not fit is cut at a word boundary; whatever comes after it is left out.
    Characters of title and text count.
    """
    if max_chars is None or _size(hit for hits in found for hit in hits) <= max_chars:
        return Shown([list(hits) for hits in found])
    shown: list[list[Hit]] = [[] for _ in found]
    left = max_chars
    for query, hit in _by_rank(found):
        kept = _cut(hit, left)
        if kept is not None:
            shown[query].append(kept)
            left -= _size([kept])
        if kept is not hit:
            break
    return Shown(shown, _note(found, shown, max_chars))


def _by_rank(found: Sequence[Sequence[Hit]]) -> Iterator[tuple[int, Hit]]:
    for rank in range(max(map(len, found), default=0)):
        for query, hits in enumerate(found):
            if rank < len(hits):
                yield query, hits[rank]


def _cut(hit: Hit, left: int) -> Hit | None:
    """The document itself if it fits, a shorter one, or None if no word of its text fits."""
    room = left - len(hit.title)
    if len(hit.text) <= room:
        return hit
    window = hit.text[: max(room, 0) + 1]  # one more, to see whether a word ends there
    end = max(map(window.rfind, " \n\t"))
    text = window[: max(end, 0)].rstrip()
    return replace(hit, text=text) if text else None


def _size(hits: Iterator[Hit] | Sequence[Hit]) -> int:
    return sum(len(hit.title) + len(hit.text) for hit in hits)


def _note(found: Sequence[Sequence[Hit]], shown: list[list[Hit]], max_chars: int) -> str:
    total, kept = sum(map(len, found)), sum(map(len, shown))
    return f"Results were cut to {max_chars} characters: {kept} of {total} documents are shown."
