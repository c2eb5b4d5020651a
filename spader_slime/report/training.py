"""Plots of the training itself: its health, credit by decision step, where time went."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from spader_slime.local.metrics_log import COLD_START, TRAIN
from spader_slime.report.data import Curve, RunData
from spader_slime.report.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    draw,
    iterations,
    legend,
    panels,
)

_STEP = re.compile(r"spader/live_peers/step_(\d+)$")


def health(run: RunData) -> Figure | None:
    """Entropy, gradient norm, and the gap between trainer and engine."""
    curves = [
        ("Entropy of the policy, nats", BLUE, run.curve(TRAIN, "train/entropy")),
        ("Gradient norm before clipping", ORANGE, run.curve(TRAIN, "train/grad_norm")),
        ("Mean |train - rollout| log-prob", PURPLE, run.curve(TRAIN, "train/logprob_gap")),
    ]
    figure, axes = panels(3)
    for axis, (title, color, curve) in zip(axes, curves, strict=True):
        if len(curve):
            draw(axis, curve, color)
        iterations(axis, title)
    _log_scale(axes[2], curves[2][2])
    return figure if any(len(curve) for _, _, curve in curves) else None


def _log_scale(axis: Any, gap: Curve) -> None:
    """The limit that a healthy fp32 run stays below is drawn in."""
    if len(gap) and gap.y.min() > 0:
        axis.set_yscale("log")
        axis.axhline(1e-4, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        axis.text(gap.x.min(), 1.15e-4, "limit", color=GREY, fontsize=8, va="bottom")
        axis.set_ylim(top=3e-4 if gap.y.max() < 2e-4 else None)


def cold_start(run: RunData) -> Figure | None:
    """Loss of the supervised stage."""
    loss = run.curve(COLD_START, "train/loss")
    if not len(loss):
        return None
    figure, (axis,) = panels(1, size=(6.5, 2.8))
    draw(axis, loss, GREEN)
    iterations(axis, "Supervised loss on scripts, nats per token", "step")
    axis.set_ylim(bottom=0)
    return figure


def steps(run: RunData) -> Figure | None:
    """Advantages and live peers by decision step, early and late in the run."""
    found = {int(m[1]) for line in run.lines for key in line if (m := _STEP.match(key))}
    if not found:
        return None
    numbers = np.arange(1, max(found) + 1)
    figure, axes = panels(3)
    shown = {
        "advantage_mean": "Advantage: mean",
        "advantage_std": "Advantage: spread",
        "live_peers": "Live peers",
    }
    for axis, (name, title) in zip(axes, shown.items(), strict=True):
        keys = [f"spader/{name}/step_{number}" for number in numbers]
        for (label, low, high), color in zip(_parts(run), (GREY, BLUE), strict=False):
            values = [_mean(run.curve(TRAIN, key), low, high) for key in keys]
            axis.plot(numbers, values, "o-", color=color, label=label, markersize=4.5)
        iterations(axis, title, "decision step")
        axis.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes[0].axhline(0, color=INK, linewidth=0.8)
    axes[2].set_ylim(bottom=0)
    legend(axes[2])
    return figure


def _parts(run: RunData) -> list[tuple[str, float, float]]:
    """(label, first, last) iterations of the beginning and the end of the run."""
    last = max(line["iteration"] for line in run.lines if line["phase"] == TRAIN)
    size = max((last + 1) // 5, 1)
    return [
        (f"iterations 1 to {size}", 0, size - 1),
        (f"iterations {last + 2 - size} to {last + 1}", last + 1 - size, last),
    ]


def _mean(curve: Curve, low: float, high: float) -> float:
    inside = curve.y[(curve.x >= low) & (curve.x <= high)]
    return float(inside.mean()) if len(inside) else float("nan")


def time_spent(run: RunData) -> Figure | None:
    """One bar of wall-clock time, cut by activity."""
    spent = sorted(run.seconds.items(), key=lambda item: -item[1])
    total = sum(seconds for _, seconds in spent)
    if not total:
        return None
    figure, (axis,) = panels(1, size=(9.0, 1.35))
    colors = (BLUE, GREEN, ORANGE, PURPLE, GREY)
    left = 0.0
    for place, (name, seconds) in enumerate(spent):
        label = f"{name.replace('_', ' ')} {seconds:.0f} s"
        color = colors[min(place, len(colors) - 1)]
        axis.barh(0, seconds, left=left, color=color, edgecolor="white", label=label)
        left += seconds
    axis.set(xlim=(0, total), yticks=[], xlabel="seconds")
    axis.grid(False)
    axis.spines["left"].set_visible(False)
    figure.legend(loc="outside upper left", ncols=len(spent), handlelength=0.8)
    return figure
