"""Plots of what was learned: scores, tiers, searching, exploration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan

from matplotlib.figure import Figure

from spader_slime.report.data import RunData
from spader_slime.report.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    bars,
    draw_both,
    iterations,
    legend,
    panels,
    percent,
)

SCORES = {"f1": "F1", "recall": "Recall", "precision": "Precision"}


def overview(run: RunData) -> Figure | None:
    """Before and after beside the curves that led there."""
    if not run.splits:
        return None
    figure, (left, middle, right) = panels(3, size=(4.1, 3.2))
    split = run.splits[0]
    bars(left, list(SCORES.values()), searchers(run, split, list(SCORES)))
    left.set_title(f"Held-out questions ({split})")
    for name, color in (("f1", BLUE), ("recall", GREEN)):
        draw_both(middle, run, name, color, SCORES[name])
    percent(middle)
    iterations(middle, "While learning")
    for name, color, label in _SEEN:
        draw_both(right, run, name, color, label)
    percent(right)
    iterations(right, "Answers that searches showed")
    for axis in (middle, right):
        legend(axis)
    return figure


_SEEN = (
    ("union_share", PURPLE, "to all peers together"),
    ("seen_share", ORANGE, "to one trajectory"),
)


def searchers(
    run: RunData, split: str, names: Sequence[str]
) -> list[tuple[str, str, Sequence[float]]]:
    """Rows for `bars`: plain query, cold start, trained; those that were measured."""
    rows: list[tuple[str, str, Mapping[str, float]]] = [
        ("plain query", GREY, run.baseline("plain_query", split)),
        ("cold start", ORANGE, run.scores("before", split)),
        ("trained", BLUE, run.scores("after", split)),
    ]
    values = [(label, color, [_or_nan(row.get(n)) for n in names]) for label, color, row in rows]
    return [row for row in values if any(value == value for value in row[2])]


def _or_nan(value: float | None) -> float:
    return nan if value is None else value


def learning(run: RunData) -> Figure | None:
    """F1, recall, precision and final reward."""
    figure, axes = panels(2, 2)
    shown = {**SCORES, "answer_reward": "Final reward"}
    colors = (BLUE, GREEN, PURPLE, ORANGE)
    for axis, (name, title), color in zip(axes, shown.items(), colors, strict=True):
        draw_both(axis, run, name, color, title)
        iterations(axis, title)
        if name in SCORES:
            percent(axis)
    return figure if _drawn(axes) else None


def tiers(run: RunData) -> Figure | None:
    """Recall of well-known and of hidden answers."""
    figure, (left, right) = panels(2)
    names = {"recall_head": "well-known answers", "recall_tail": "hidden answers"}
    for (name, label), color in zip(names.items(), (BLUE, ORANGE), strict=True):
        draw_both(left, run, name, color, label)
    percent(left)
    iterations(left, "Recall while learning")
    legend(left)
    split = run.splits[0] if run.splits else ""
    rows = searchers(run, split, list(names))
    if rows:
        bars(right, ["well-known", "hidden"], rows)
    right.set_title(f"Recall before and after ({split or 'not evaluated yet'})")
    return figure if _drawn((left,)) or rows else None


def searching(run: RunData) -> Figure | None:
    """How much the agent searches, and how its episodes end."""
    figure, axes = panels(3)
    for name, color, label in (
        ("turns", BLUE, "turns"),
        ("queries", GREEN, "queries"),
        ("malformed_calls", ORANGE, "malformed calls"),
    ):
        draw_both(axes[0], run, name, color, label)
    iterations(axes[0], "Per trajectory")
    axes[0].set_ylim(bottom=0)
    for name, color, label in (
        ("response_tokens", BLUE, "whole response"),
        ("observation_tokens", GREY, "of that, documents"),
    ):
        draw_both(axes[1], run, name, color, label)
    iterations(axes[1], "Tokens per trajectory")
    axes[1].set_ylim(bottom=0)
    for name, color, label in (
        ("end/answered", GREEN, "answered"),
        ("end/turn_limit", ORANGE, "out of turns"),
        ("end/token_limit", PURPLE, "out of tokens"),
        ("end/invalid", GREY, "invalid"),
    ):
        draw_both(axes[2], run, name, color, label)
    iterations(axes[2], "How episodes end")
    percent(axes[2])
    for axis in axes:
        legend(axis)
    return figure if _drawn(axes) else None


def exploration(run: RunData) -> Figure | None:
    """What peers see, alone and together."""
    figure, axes = panels(3)
    for name, color, label in (
        ("union_entities", PURPLE, "all peers together"),
        ("entities_seen", ORANGE, "one trajectory"),
    ):
        draw_both(axes[0], run, name, color, label)
    iterations(axes[0], "Gold answers seen")
    axes[0].set_ylim(bottom=0)
    draw_both(axes[1], run, "new_entities_per_step", BLUE, "")
    iterations(axes[1], "New gold answers per step")
    axes[1].set_ylim(bottom=0)
    for name, color, label in (
        ("peer_overlap", GREY, "seen that a peer saw too"),
        ("novelty_share", GREEN, "reward that novelty gave"),
    ):
        draw_both(axes[2], run, name, color, label)
    iterations(axes[2], "Overlap and novelty")
    percent(axes[2])
    for axis in (axes[0], axes[2]):
        legend(axis)
    return figure if _drawn(axes) else None


def _drawn(axes: Sequence[object]) -> bool:
    return any(axis.lines for axis in axes)  # type: ignore[attr-defined]
