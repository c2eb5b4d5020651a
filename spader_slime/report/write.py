"""Draws every plot that the run has numbers for, and writes the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from spader_slime.local.run_dir import RunDir
from spader_slime.report import distilling, learning, training
from spader_slime.report.data import RunData, load_run
from spader_slime.report.group import group
from spader_slime.report.page import Picture, page
from spader_slime.report.style import DPI, STYLE


@dataclass(frozen=True)
class Plot:
    """A plot of the report: file name, heading, what it shows, how it is drawn."""

    name: str
    title: str
    caption: str
    draw: Callable[[RunData], Figure | None]
    wide: bool = False


_LEGEND = "Lines are training rollouts, dots the validation questions."
PLOTS = (
    Plot("overview", "At a glance", _LEGEND, learning.overview),
    Plot("learning", "Learning curves", _LEGEND, learning.learning),
    Plot(
        "tiers",
        "Well-known and hidden answers",
        "A plain first query shows the well-known answers; hidden ones take further searches.",
        learning.tiers,
    ),
    Plot(
        "distillation",
        "What the teacher passed on",
        "Measured on the student's own trajectories; gated tokens are those where the teacher is "
        "least certain.",
        distilling.distillation,
    ),
    Plot("searching", "Searches and endings", _LEGEND, learning.searching),
    Plot(
        "exploration",
        "Exploration",
        "Gold answers in the documents that were shown, whether the agent named them or not.",
        learning.exploration,
    ),
    Plot(
        "steps",
        "Credit by decision step",
        "Each step is compared with the peers that are still searching at that step.",
        training.steps,
    ),
    Plot(
        "group",
        "One question, all its peers",
        "From the last rollout that was kept. Blue steps are encouraged, red ones discouraged.",
        group,
        wide=True,
    ),
    Plot(
        "health",
        "Health of the training",
        "The engine samples and the trainer scores the same tokens: the gap must stay tiny.",
        training.health,
    ),
    Plot("cold_start", "Cold start", "The format, learned from scripts.", training.cold_start),
    Plot("time", "Where the time went", "Wall-clock seconds by activity.", training.time_spent),
)


def write_report(root: Path) -> Path:
    """Write `plots/*.png` and `report.html` of the run in `root`; returns the page's path.

    Raises:
        DataError: there is no run, or a file of it is damaged.
    """
    data, run = load_run(Path(root)), RunDir(root)
    run.plots.mkdir(exist_ok=True)
    pictures = []
    for plot in PLOTS:
        png = _png(plot, data)
        if png is not None:
            (run.plots / f"{plot.name}.png").write_bytes(png)
            pictures.append(Picture(plot.title, plot.caption, png, plot.wide))
    return run.write_text(run.report, page(data, pictures))


def _png(plot: Plot, data: RunData) -> bytes | None:
    with rc_context(STYLE):
        figure = plot.draw(data)
        if figure is None:
            return None
        out = BytesIO()
        figure.savefig(out, format="png", dpi=DPI)
        return out.getvalue()
