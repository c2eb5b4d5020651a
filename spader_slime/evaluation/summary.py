"""Means with intervals: by data set, and by number of gold answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from spader_slime.data.figures import BINS
from spader_slime.evaluation.bootstrap import Estimate, estimates
from spader_slime.evaluation.scores import COUNTS, SCORES, TIERS, Scored

MEASURES = (*SCORES, *COUNTS, *(f"recall_{tier}" for tier in TIERS), "seen")


@dataclass(frozen=True)
class Group:
    """Questions that belong together.

    Attributes:
        questions, trajectories: how many. A question counts once: as the mean of its samples.
        estimates: by measure; what nothing is known of is missing.
        ends: end state -> share of the trajectories.
        tiers: tier -> gold answers of it.
    """

    name: str
    questions: int
    trajectories: int
    estimates: dict[str, Estimate]
    ends: dict[str, float] = field(default_factory=dict)
    tiers: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        found = {name: value.to_dict() for name, value in self.estimates.items()}
        sizes = {"questions": self.questions, "trajectories": self.trajectories}
        return {**sizes, "measures": found, "ends": self.ends, "gold_answers": self.tiers}


@dataclass(frozen=True)
class Summary:
    """All groups of an evaluation.

    Attributes:
        data_sets: one group each; "all" too where there are several and they may be pooled.
        by_gold: data set -> its questions by number of gold answers.
    """

    data_sets: list[Group]
    by_gold: dict[str, list[Group]]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        by_gold = {n: {g.name: g.to_dict() for g in groups} for n, groups in self.by_gold.items()}
        whole = {group.name: group.to_dict() for group in self.data_sets}
        return {"data_sets": whole, "by_gold_answers": by_gold}


Questions = list[list[Scored]]  # trajectories by question


def summarize(scored: Iterable[Scored], names: Sequence[str], pooled: bool) -> Summary:
    """Groups of everything that was scored.

    Args:
        names: data sets, in the order to show.
        pooled: also take all data sets as one; benchmarks scored in different ways can't be.
    """
    found = by_question(scored)
    parts = {n: [q for key, q in found.items() if key[0] == n] for n in names}
    parts = {name: questions for name, questions in parts.items() if questions}
    groups = [group(name, questions) for name, questions in parts.items()]
    if pooled and len(parts) > 1:
        groups.append(group("all", list(chain.from_iterable(parts.values()))))
    return Summary(groups, {name: _by_gold(questions) for name, questions in parts.items()})


def by_question(scored: Iterable[Scored]) -> dict[tuple[str, int], list[Scored]]:
    """Trajectories of each question."""
    found: dict[tuple[str, int], list[Scored]] = {}
    for one in scored:
        found.setdefault(one.question, []).append(one)
    return found


def group(name: str, questions: Questions) -> Group:
    """Means over these questions."""
    measured = estimates(table(questions))
    everyone = list(chain.from_iterable(questions))
    ends = Counter(one.line["end"] for one in everyone)
    return Group(
        name=name,
        questions=len(questions),
        trajectories=len(everyone),
        estimates={m: e for m, e in zip(MEASURES, measured, strict=True) if e is not None},
        ends={end: count / len(everyone) for end, count in sorted(ends.items())},
        tiers=dict(Counter(tier for q in questions for tier in q[0].tiers if tier in TIERS)),
    )


def table(questions: Questions) -> Any:
    """[questions, MEASURES]: mean over the samples of each question; NaN: not known."""
    rows = [[_mean(samples, name) for name in MEASURES] for samples in questions]
    return np.array(rows, dtype=np.float64).reshape(len(questions), len(MEASURES))


def _mean(samples: Sequence[Scored], name: str) -> float:
    known = [one.values[name] for one in samples if name in one.values]
    return float(np.mean(known)) if known else float("nan")


def _by_gold(questions: Questions) -> list[Group]:
    bins = {bin_name(low, high): (low, high or float("inf")) for low, high in BINS}
    sized = {
        name: [q for q in questions if low <= len(q[0].line["gold"]) <= high]
        for name, (low, high) in bins.items()
    }
    return [group(name, found) for name, found in sized.items() if found]


def bin_name(low: int, high: int | None) -> str:
    """`3-5`, `1`, `51+`."""
    return f"{low}+" if high is None else str(low) if low == high else f"{low}-{high}"
