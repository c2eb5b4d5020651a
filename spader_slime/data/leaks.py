"""Rows of two files that share their question or their gold set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from spader_slime.data.rows import Keys, Row, sound_rows

SHOWN = 3  # pairs of places printed


@dataclass
class Seen:
    """Keys of a file's rows, each with the place of its first row."""

    name: str
    questions: dict[str, str] = field(default_factory=dict)
    golds: dict[tuple[str, ...], str] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Note a row."""
        self.questions.setdefault(row.question_key, row.place)
        self.golds.setdefault(row.gold_key, row.place)


@dataclass(frozen=True)
class Leak:
    """What two files share.

    Attributes:
        questions: pairs of places that ask the same after normalization.
        golds: pairs of places with the same gold set of two answers or more.
        single_golds: how many gold sets of one answer are in both; in short-answer data these
            are mostly chance.
    """

    first: str
    second: str
    questions: list[tuple[str, str]]
    golds: list[tuple[str, str]]
    single_golds: int

    def lines(self) -> list[str]:
        """The leak as text."""
        counts = (
            f"{len(self.questions)} questions, {len(self.golds)} gold sets of several answers, "
            f"{self.single_golds} of one answer"
        )
        pairs = [*self.questions[:SHOWN], *self.golds[:SHOWN]]
        shared = [f"  {first} = {second}" for first, second in pairs]
        return [f"{self.first} and {self.second} share: {counts}", *shared]


def seen_in(path: Path, keys: Keys) -> Seen:
    """The keys of a file's rows.

    Raises:
        DataError: an unreadable file or a bad row.
    """
    return collect(str(path), sound_rows(path, keys))


def collect(name: str, rows: Iterable[Row]) -> Seen:
    """The keys of rows."""
    seen = Seen(name)
    for row in rows:
        seen.add(row)
    return seen


def leaks(files: Sequence[Seen]) -> list[Leak]:
    """What each two of the files share; pairs that share nothing are left out."""
    found = [_leak(first, second) for first, second in combinations(files, 2)]
    return [leak for leak in found if leak.questions or leak.golds or leak.single_golds]


def _leak(first: Seen, second: Seen) -> Leak:
    asked = [key for key in first.questions if key in second.questions]
    same = [key for key in first.golds if key in second.golds]
    return Leak(
        first.name,
        second.name,
        [(first.questions[key], second.questions[key]) for key in asked],
        [(first.golds[key], second.golds[key]) for key in same if len(key) > 1],
        sum(len(key) == 1 for key in same),
    )
