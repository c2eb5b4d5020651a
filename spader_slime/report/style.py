"""How all plots look, and the few ways to draw that they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from spader_slime.local.metrics_log import EVALUATION, TRAIN
from spader_slime.report.data import Curve, RunData

BLUE, GREEN, ORANGE, PURPLE, RED, GREY = (
    "#1f6feb",
    "#2da44e",
    "#d4811b",
    "#8250df",
    "#cf222e",
    "#8b949e",
)
INK, FAINT = "#24292f", "#d8dee4"
STYLE: Any = {  # matplotlib's own type names every key, which differ by version
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.labelcolor": "#57606a",
    "axes.edgecolor": "#afb8c1",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "xtick.color": "#57606a",
    "ytick.color": "#57606a",
    "lines.linewidth": 2,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}
PANEL = (4.3, 3.0)  # inches
DPI = 150


def panels(columns: int, rows: int = 1, size: tuple[float, float] = PANEL) -> tuple[Figure, Any]:
    """A figure of equal panels, and its axes as a flat list."""
    with rc_context(STYLE):
        figure = Figure((size[0] * columns, size[1] * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
    return figure, axes


def smooth(values: NDArray[np.float64], half: int) -> NDArray[np.float64]:
    """Running mean over `half` neighbors on each side, fewer near the ends."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    place = np.arange(len(values))
    low, high = np.maximum(place - half, 0), np.minimum(place + half + 1, len(values))
    return (sums[high] - sums[low]) / (high - low)


def draw(axis: Any, curve: Curve, color: str, label: str | None = None) -> None:
    """A noisy curve: the values faint, their running mean on top."""
    if len(curve) < 8:
        axis.plot(curve.x, curve.y, color=color, label=label, marker="o", markersize=4)
        return
    axis.plot(curve.x, curve.y, color=color, alpha=0.22, linewidth=1)
    axis.plot(curve.x, smooth(curve.y, max(2, len(curve) // 40)), color=color, label=label)


def draw_held_out(axis: Any, curve: Curve, color: str, label: str | None = None) -> None:
    """Evaluations: few and exact."""
    style = {"color": color, "marker": "o", "markersize": 5, "markeredgecolor": "white"}
    axis.plot(curve.x, curve.y, linestyle=(0, (2, 2)), linewidth=1.2, label=label, **style)


def draw_both(axis: Any, run: RunData, name: str, color: str, label: str) -> None:
    """A metric of the training rollouts, and of the dev split where it was evaluated."""
    train = run.curve(TRAIN, f"spader/{name}")
    held_out = run.curve(EVALUATION, f"eval/dev/spader/{name}")
    if name.startswith("union"):  # evaluated trajectories have no peers
        held_out = Curve(held_out.x[:0], held_out.y[:0])
    if len(train):
        draw(axis, train, color, label)
    if len(held_out):
        draw_held_out(axis, held_out, color, None if len(train) else label)


def percent(axis: Any) -> None:
    """Shares in [0, 1] shown as percent, from zero."""
    axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axis.set_ylim(bottom=0)


def iterations(axis: Any, title: str, label: str = "iteration") -> None:
    """Title and a whole-numbered horizontal axis."""
    axis.set_title(title)
    axis.set_xlabel(label)
    axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def legend(axis: Any) -> None:
    """A legend where something is labelled."""
    if axis.get_legend_handles_labels()[0]:
        axis.legend(loc="best")


def bars(axis: Any, names: Sequence[str], rows: Sequence[tuple[str, str, Sequence[float]]]) -> None:
    """Groups of bars over `names`; rows are (label, color, values), NaN leaves a bar out."""
    width = 0.8 / len(rows)
    for place, (label, color, values) in enumerate(rows):
        x = np.arange(len(names)) + (place - (len(rows) - 1) / 2) * width
        drawn = axis.bar(x, values, width * 0.9, color=color, label=label)
        texts = ["" if np.isnan(value) else f"{100 * value:.0f}" for value in values]
        axis.bar_label(drawn, texts, padding=2, fontsize=8, color=INK)
    axis.set_xticks(range(len(names)), names)
    axis.tick_params(axis="x", length=0)
    percent(axis)
    axis.set_ylim(top=1.25 * axis.dataLim.y1)  # room for the legend
    axis.legend(loc="upper left", ncols=len(rows), columnspacing=1.2, handlelength=1.0)
