"""A summary as tables of text: measures down, groups across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spader_slime.evaluation.bootstrap import Estimate
from spader_slime.evaluation.scores import COUNTS, SCORES, TIERS
from spader_slime.evaluation.summary import Group, Summary

NOTHING = "–"
BY_GOLD = ("recall", "precision", "f1", "exact_match", "calls", "turns")
_LABELS = {**SCORES, **COUNTS, "seen": "gold answers seen"}


@dataclass(frozen=True)
class Grid:
    """A table of text; the first cell of each row is its label."""

    title: str
    note: str
    head: list[str]
    rows: list[list[str]]


def grids(summary: Summary, tiers_note: str = "") -> list[Grid]:
    """All tables of an evaluation.

    Args:
        tiers_note: how head and tail were told apart.
    """
    groups = summary.data_sets
    whole = [
        _measures("Results", "Percent with 95 % interval; counts per trajectory.", groups),
        _ends(groups),
    ]
    tiers = [_tiers(groups, tiers_note)] if any(group.tiers for group in groups) else []
    by_gold = [
        _measures(f"{name}, by number of gold answers", "", parts, BY_GOLD)
        for name, parts in summary.by_gold.items()
    ]
    return [*whole, *tiers, *by_gold]


def _measures(
    title: str, note: str, groups: Sequence[Group], names: Sequence[str] = tuple(_LABELS)
) -> Grid:
    sizes = [
        ["questions", *(str(group.questions) for group in groups)],
        ["trajectories", *(str(group.trajectories) for group in groups)],
    ]
    rows = [[_LABELS[n], *(cell(n, group.estimates.get(n)) for group in groups)] for n in names]
    return Grid(title, note, ["", *(group.name for group in groups)], [*sizes, *rows])


def _ends(groups: Sequence[Group]) -> Grid:
    names = list(dict.fromkeys(end for group in groups for end in group.ends))
    rows = [
        [name.replace("_", " "), *(f"{100 * group.ends.get(name, 0.0):.1f}" for group in groups)]
        for name in names
    ]
    note = "Percent of trajectories."
    return Grid("How trajectories ended", note, ["", *(group.name for group in groups)], rows)


def _tiers(groups: Sequence[Group], note: str) -> Grid:
    rows = []
    for tier in TIERS:
        name = f"recall_{tier}"
        rows.append([f"{tier} answers", *(str(group.tiers.get(tier, 0)) for group in groups)])
        rows.append([f"recall, {tier}", *(cell(name, g.estimates.get(name)) for g in groups)])
    return Grid("Head and tail", note, ["", *(group.name for group in groups)], rows)


def cell(name: str, value: Estimate | None) -> str:
    """`40.0 (36.2 to 43.9)`; percent, or a count."""
    if value is None:
        return NOTHING
    scale = 1.0 if name in COUNTS else 100.0
    mean, low, high = (
        NOTHING if number is None else f"{scale * number:.1f}"
        for number in (value.mean, value.low, value.high)
    )
    return mean if value.low is None else f"{mean} ({low} to {high})"


def lost_line(lost: Mapping[str, int]) -> str:
    """How many trajectories are missing from the tables, and why."""
    reasons = "; ".join(f"{count} x {reason}" for reason, count in lost.items())
    return f"{sum(lost.values())} not in the tables, lost to engine or search service: {reasons}"
