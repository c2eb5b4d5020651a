"""Two evaluations side by side, question by question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from rich.console import Console

from spader_slime.errors import DataError
from spader_slime.evaluation.bootstrap import Estimate, estimates, sign_probability
from spader_slime.evaluation.grids import NOTHING, Grid, cell
from spader_slime.evaluation.render import markdown, page, print_grids
from spader_slime.evaluation.results import results_of
from spader_slime.evaluation.scores import COUNTS, SCORES, Scored
from spader_slime.evaluation.summary import MEASURES, by_question, table
from spader_slime.files import write_whole

_LABELS = {**SCORES, **COUNTS, "recall_head": "recall, head", "recall_tail": "recall, tail"}


@dataclass(frozen=True)
class Difference:
    """One measure of both runs over the questions that they share.

    Attributes:
        by: second minus first, paired.
        p: two-sided bootstrap probability of a difference as large where there is none.
        better, worse: questions where the second run is above, below the first.
    """

    first: Estimate
    second: Estimate
    by: Estimate
    p: float
    better: int
    worse: int


@dataclass(frozen=True)
class Comparison:
    """What two runs have in common, and where they differ.

    Attributes:
        first, second: their folders.
        pairs: questions that both answered.
        only: questions that only the first, only the second run answered.
        differences: by measure; those that both runs know.
    """

    first: Path
    second: Path
    scoring: str
    pairs: int
    only: tuple[int, int]
    differences: dict[str, Difference]

    @property
    def notes(self) -> list[str]:
        """Which runs these are, and how many questions the comparison rests on."""
        first, second = self.only
        alone = (
            f"; {first} only in the first, {second} only in the second" if any(self.only) else ""
        )
        return [
            f"First: {self.first}. Second: {self.second}. Scoring: {self.scoring}.",
            f"{self.pairs} questions in both{alone}.",
        ]

    def show(self, console: Console) -> None:
        """The table in the terminal."""
        print_grids(console, self.notes, [self.grid()])

    def write(self, folder: Path) -> None:
        """Write `comparison.json`, `.md` and `.html`."""
        folder.mkdir(parents=True, exist_ok=True)
        whole = orjson.dumps(self.to_dict(), option=orjson.OPT_INDENT_2) + b"\n"
        write_whole(folder / "comparison.json", whole)
        for suffix, render in {"md": markdown, "html": page}.items():
            text = render("Comparison", self.notes, [self.grid()])
            write_whole(folder / f"comparison.{suffix}", text.encode())

    def grid(self) -> Grid:
        """The table: measures down."""
        head = ["", "first", "second", "second - first", "p", "better", "worse"]
        rows = [
            [_LABELS[name], *_cells(name, found)]
            for name, found in self.differences.items()
            if name in _LABELS
        ]
        note = "Percent, or counts per trajectory; 95 % interval of the paired difference."
        return Grid("Comparison", note, head, rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        found = {
            name: {
                **{part: getattr(d, part).to_dict() for part in ("first", "second", "by")},
                **{part: getattr(d, part) for part in ("p", "better", "worse")},
            }
            for name, d in self.differences.items()
        }
        runs = {"first": str(self.first), "second": str(self.second), "scoring": self.scoring}
        return {**runs, "pairs": self.pairs, "only": list(self.only), "differences": found}


def compare(first: Path, second: Path, scoring: str) -> Comparison:
    """Pair the runs in two folders by data set and question.

    Raises:
        DataError: no question in common; a question with other gold answers in the other run.
    """
    runs = [_answered(results_of(folder, scoring).scored) for folder in (first, second)]
    shared = sorted(runs[0].keys() & runs[1].keys())
    if not shared:
        raise DataError(f"{first} and {second} have no question in common")
    _check_gold(runs, shared)
    tables = [table([run[key] for key in shared]) for run in runs]
    only = (len(runs[0]) - len(shared), len(runs[1]) - len(shared))
    return Comparison(first, second, scoring, len(shared), only, _differences(*tables))


Answered = dict[tuple[str, str, int], list[Scored]]


def _answered(scored: Sequence[Scored]) -> Answered:
    """Trajectories by data set, question, and which time it comes in the file."""
    found: Answered = {}
    for (name, _), samples in by_question(scored).items():
        question, times = samples[0].line["question"], 0
        while (name, question, times) in found:
            times += 1
        found[name, question, times] = samples
    return found


def _check_gold(runs: Sequence[Answered], shared: Sequence[Any]) -> None:
    for key in shared:
        first, second = (run[key][0].line["gold"] for run in runs)
        if first != second:
            raise DataError(f"the runs have different gold answers for {key[1]!r:.80}")


def _differences(first_QM: Any, second_QM: Any) -> dict[str, Difference]:
    known_QM = ~(np.isnan(first_QM) | np.isnan(second_QM))
    first_QM, second_QM = (np.where(known_QM, v, np.nan) for v in (first_QM, second_QM))
    by_QM = second_QM - first_QM
    found = {}
    columns = zip(estimates(first_QM), estimates(second_QM), estimates(by_QM), strict=True)
    for m, (first, second, by) in enumerate(columns):
        if first is not None and second is not None and by is not None:
            own_Q = by_QM[:, m]
            better, worse = int((own_Q > 0).sum()), int((own_Q < 0).sum())
            p = sign_probability(own_Q)
            found[MEASURES[m]] = Difference(first, second, by, p, better, worse)
    return found


def _cells(name: str, found: Difference) -> list[str]:
    scale = 1.0 if name in COUNTS else 100.0
    means = [f"{scale * value.mean:.1f}" for value in (found.first, found.second)]
    by = cell(name, found.by)
    signed = by if by.startswith(("-", NOTHING)) else f"+{by}"
    return [*means, signed, f"{found.p:.3f}", str(found.better), str(found.worse)]
