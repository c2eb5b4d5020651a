"""What all parts of the metrics share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from spader_slime.algorithms.credit import Credit
from spader_slime.algorithms.teacher_scores import Lesson
from spader_slime.episode import Episode

Metrics = dict[str, float]


@dataclass(frozen=True)
class Graded:
    """One rewarded episode.

    Attributes:
        episode: what happened.
        credit: what it earned.
        tier_recall: tier -> share of that tier's gold answers that the final answer names, where
            the question says which answers are well-known ("head") and which are hidden ("tail").
        lesson: what a teacher said of it, where one was asked.
    """

    episode: Episode
    credit: Credit
    tier_recall: Mapping[str, float] = field(default_factory=dict)
    lesson: Lesson | None = None


def mean(values: Iterable[float]) -> float:
    """The mean, 0 of nothing."""
    found = [float(value) for value in values]
    return sum(found) / len(found) if found else 0.0
