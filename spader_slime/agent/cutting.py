"""Search results cut to a number of characters."""

from __future__ import annotations

from collections.abc import Sequence

from spader_slime.algorithms.characters import SPACELESS
from spader_slime.episode import Document

Found = Sequence[Sequence[Document]]  # one list per query, best first


def still_named(
    queries: Sequence[str], found: Found, shown: Found
) -> tuple[list[str], list[Sequence[Document]]]:
    """Queries and what is shown for them.

    A query all of whose results were cut is left out: it must not look as if nothing was found.
    """
    triples = zip(queries, found, shown, strict=True)
    kept = [(query, part) for query, whole, part in triples if part or not whole]
    return [query for query, _ in kept], [part for _, part in kept]


def shorten(found: Found, characters: int) -> list[list[Document]]:
    """At most `characters` of titles and texts: rank by rank over the queries, the last one cut.

    A document whose title does not fit, or of whose text nothing would be left, is dropped, and so
    is everything of lower rank. Texts are cut between words: half of "Romania" must not be shown as
    "Roman", nor "1,000" as "1".
    """
    shown: list[list[Document]] = [[] for _ in found]
    for rank in range(max(map(len, found), default=0)):
        for own, documents in zip(shown, found, strict=True):
            if rank >= len(documents):
                continue
            document = documents[rank]
            room = characters - len(document.title)
            if room < min(1, len(document.text)):
                return shown
            text = _beginning(document.text, room)
            if document.text and not text:
                return shown
            own.append(Document(document.title, text))
            if text != document.text:
                return shown
            characters = room - len(text)
    return shown


def _beginning(text: str, room: int) -> str:
    """As many whole words as `room` characters hold."""
    if room >= len(text):
        return text
    while room and _joined(text[room - 1], text[room]):
        room -= 1
    return text[:room].rstrip()


def _joined(left: str, right: str) -> bool:
    """Whether a cut between these two would split a word ("O'Neill" and "1,000" are words)."""
    return not (left.isspace() or right.isspace() or SPACELESS.search(left + right))
