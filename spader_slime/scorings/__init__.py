"""Three ways to score an answer: ours, the SPADER authors', each benchmark's official one.

`docs/scoring.md` says where they differ, with examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spader_slime.algorithms.answers import parse_answer
from spader_slime.algorithms.scoring import AnswerScore, score_answer
from spader_slime.errors import DataError
from spader_slime.scorings import authors
from spader_slime.scorings.official import score_official
from spader_slime.scorings.reference import Reference

__all__ = ["SCORINGS", "Reference", "Scoring", "find_scoring"]


@dataclass(frozen=True)
class Scoring:
    """How an answer is read and scored.

    Attributes:
        read: the assistant's turns in order -> answers; None: no valid answer.
        score: (answers or None, reference) -> score, all shares in 0..1. `recall_at` is empty
            where the scoring knows no such thing.
    """

    name: str
    read: Callable[[Sequence[str]], list[str] | None]
    score: Callable[[Sequence[str] | None, Reference], AnswerScore]


def _read_last(turns: Sequence[str]) -> list[str] | None:
    return parse_answer(turns[-1]) if turns else None


def _score_ours(predicted: Sequence[str] | None, reference: Reference) -> AnswerScore:
    return score_answer(predicted, reference.gold)


SCORINGS = {
    scoring.name: scoring
    for scoring in (
        Scoring("ours", _read_last, _score_ours),
        Scoring("authors", authors.read_answers, authors.score_authors),
        Scoring("official", _read_last, score_official),
    )
}


def find_scoring(name: str) -> Scoring:
    """The scoring of this name.

    Raises:
        DataError: there is none.
    """
    if name not in SCORINGS:
        raise DataError(f"no scoring {name!r}; there are {', '.join(SCORINGS)}")
    return SCORINGS[name]
