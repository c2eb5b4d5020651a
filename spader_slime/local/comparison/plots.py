"""Plots of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from spader_slime.local.comparison.plan import Plan
from spader_slime.local.statistics import mean_interval

matplotlib.use("Agg")
from matplotlib import pyplot as plt

SHOWN = {
    "recall": "recall",
    "f1": "F1",
    "precision": "precision",
    "seen_share": "seen",
    "union_share": "union seen",
}
COLORS = ("#1f6feb", "#8b949e", "#d29922", "#2da44e", "#a475f9", "#cf222e")


def plot_arms(path: Path, plan: Plan, cells: Mapping[tuple[str, str], Any]) -> None:
    """Means with 95 % intervals, one panel for each regime; dots are seeds."""
    regimes, arms = list(plan.asked.regimes), list(plan.asked.arms)
    figure, axes = _panels(len(regimes))
    width = 0.8 / len(arms)
    for axis, regime in zip(axes, regimes, strict=True):
        for index, arm in enumerate(arms):
            for place, key in enumerate(SHOWN):
                values = [100 * seed[key] for seed in cells[regime, arm]]
                _bar(axis, place + (index - (len(arms) - 1) / 2) * width, width, values, index, arm)
        axis.set_xticks(range(len(SHOWN)), list(SHOWN.values()))
        axis.set_title(f"{regime} cold start, test questions")
        axis.set_ylabel("percent")
    _finish(figure, axes[0], path)


def _bar(axis: Any, x: float, width: float, values: Sequence[float], index: int, arm: str) -> None:
    found = mean_interval(values)
    error = found.half_width if np.isfinite(found.half_width) else 0.0
    label = arm if x < 0.5 else None  # once is enough for the legend
    color = COLORS[index % len(COLORS)]
    axis.bar(x, found.mean, width * 0.92, yerr=error, color=color, alpha=0.75, label=label)
    axis.plot([x] * len(values), values, ".", color="#24292f", markersize=3)


def plot_curves(path: Path, plan: Plan, curves: Mapping[tuple[str, str], Any]) -> None:
    """Recall of the training rollouts, smoothed over five iterations; the band spans the seeds."""
    regimes = list(plan.asked.regimes)
    figure, axes = _panels(len(regimes))
    for axis, regime in zip(axes, regimes, strict=True):
        for index, arm in enumerate(plan.asked.arms):
            _curve(axis, curves[regime, arm], COLORS[index % len(COLORS)], arm)
        axis.set_title(f"{regime} cold start, training rollouts")
        axis.set_xlabel("iteration")
        axis.set_ylabel("recall, percent")
    _finish(figure, axes[0], path)


def _curve(axis: Any, seeds: Sequence[Sequence[tuple[int, float]]], color: str, arm: str) -> None:
    rows = np.array([[100 * value for _, value in seed] for seed in seeds])
    window = min(5, rows.shape[1])
    smooth = np.apply_along_axis(_smooth, 1, rows, window)
    x = np.arange(smooth.shape[1]) + window
    axis.plot(x, smooth.mean(0), color=color, label=arm)
    axis.fill_between(x, smooth.min(0), smooth.max(0), color=color, alpha=0.15, linewidth=0)


def _smooth(row: Any, window: int) -> Any:
    return np.convolve(row, np.ones(window) / window, mode="valid")


def _panels(count: int) -> tuple[Any, Any]:
    figure, axes = plt.subplots(1, count, figsize=(6.5 * count, 4.2), squeeze=False)
    for axis in axes[0]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", alpha=0.3)
        axis.set_axisbelow(True)
    return figure, axes[0]


def _finish(figure: Any, first: Any, path: Path) -> None:
    first.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
