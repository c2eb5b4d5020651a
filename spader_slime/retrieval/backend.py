"""What a search engine is to the rest: something that finds, and something that is filled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from spader_slime.errors import SpaderError
from spader_slime.retrieval.passages import Hit, Passage


class GivenUpError(SpaderError):
    """Nobody waits for the result any more."""


class Backend(Protocol):
    """Finds passages. Safe to call from several threads."""

    def search(self, query: str, limit: int) -> list[Hit]:
        """At most `limit` hits, best first. The query is words, never syntax; none: no hits."""

    def search_all(
        self, queries: Sequence[str], limit: int, given_up: Callable[[], bool]
    ) -> list[list[Hit]]:
        """`search` for each query.

        Raises:
            GivenUpError: `given_up()` became true on the way.
        """

    def __len__(self) -> int:
        """Number of passages."""


class Writer(Protocol):
    """Fills an index. What was committed outlives a kill of the process.

    Attributes:
        done: passages that are in the index for good.
        facts: what the index's manifest should say beside `passages`; restored before work on a
            half-built index goes on.
    """

    done: int
    facts: dict[str, Any]

    def add(self, passage: Passage) -> None:
        """Add one more."""

    def commit(self) -> None:
        """Make everything added so far permanent."""

    def finish(self) -> None:
        """Commit, and do what is left until the index can be searched. Nothing is added after."""


def one_by_one(
    backend: Backend, queries: Sequence[str], limit: int, given_up: Callable[[], bool]
) -> list[list[Hit]]:
    """`Backend.search_all` of an engine that gains nothing from several queries at once."""
    found = []
    for query in queries:
        if given_up():
            raise GivenUpError("the caller is gone")
        found.append(backend.search(query, limit))
    return found
