"""Plots of a comparison: one panel for each regime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context

from spader_slime.local.comparison.plan import Plan
from spader_slime.local.statistics import mean_interval
from spader_slime.report import style

SHOWN = {
    "recall": "recall",
    "f1": "F1",
    "precision": "precision",
    "seen_share": "seen",
    "union_share": "union seen",
}
COLORS = (style.BLUE, style.GREY, style.ORANGE, style.GREEN, style.PURPLE, style.RED)
PANEL = (5.4, 3.8)  # inches
SMOOTHING = 2  # iterations on each side


def plot_arms(path: Path, plan: Plan, cells: Mapping[tuple[str, str], Any]) -> None:
    """Means with 95 % intervals on the test questions; dots are seeds."""

    def draw(axis: Any, regime: str) -> None:
        for index, arm in enumerate(plan.asked.arms):
            _bars(axis, cells[regime, arm], (index, len(plan.asked.arms)), arm)
        axis.set_xticks(range(len(SHOWN)), list(SHOWN.values()))
        axis.set_title(f"{regime} cold start, test questions")
        style.percent(axis)

    _figure(path, plan, draw)


def _bars(
    axis: Any, seeds: Sequence[Mapping[str, float]], place: tuple[int, int], arm: str
) -> None:
    index, count = place  # of the arms
    width, color = 0.8 / count, COLORS[index % len(COLORS)]
    x = np.arange(len(SHOWN)) + (index - (count - 1) / 2) * width
    rows = [[seed[key] for seed in seeds] for key in SHOWN]
    found = [mean_interval(row) for row in rows]
    errors = [i.half_width if np.isfinite(i.half_width) else 0.0 for i in found]
    means = [interval.mean for interval in found]
    bar = {"color": color, "alpha": 0.75, "error_kw": {"linewidth": 1}}
    axis.bar(x, means, width * 0.92, yerr=errors, label=arm, **bar)
    for where, row in zip(x, rows, strict=True):
        axis.plot([where] * len(row), row, ".", color=style.INK, markersize=3)


def plot_curves(path: Path, plan: Plan, curves: Mapping[tuple[str, str], Any]) -> None:
    """Recall of the training rollouts, a running mean; the band spans the seeds."""

    def draw(axis: Any, regime: str) -> None:
        for index, arm in enumerate(plan.asked.arms):
            _curve(axis, curves[regime, arm], COLORS[index % len(COLORS)], arm)
        style.iterations(axis, f"{regime} cold start, training rollouts")
        axis.set_ylabel("recall")
        style.percent(axis)

    _figure(path, plan, draw)


def _curve(axis: Any, seeds: Sequence[Sequence[tuple[int, float]]], color: str, arm: str) -> None:
    x = [iteration for iteration, _ in seeds[0]]
    rows = [style.smooth(np.array([value for _, value in seed]), SMOOTHING) for seed in seeds]
    axis.plot(x, np.mean(rows, axis=0), color=color, label=arm)
    axis.fill_between(x, np.min(rows, 0), np.max(rows, 0), color=color, alpha=0.15, linewidth=0)


def _figure(path: Path, plan: Plan, draw: Callable[[Any, str], None]) -> None:
    regimes = list(plan.asked.regimes)
    with rc_context(style.STYLE):
        figure, axes = style.panels(len(regimes), size=PANEL)
        for axis, regime in zip(axes, regimes, strict=True):
            draw(axis, regime)
        style.legend(axes[0])
        figure.savefig(path, dpi=style.DPI)
