"""Plots of a distillation: distance to the teacher, and how certain both are."""

from __future__ import annotations

from matplotlib.figure import Figure

from spader_slime.local.metrics_log import TRAIN
from spader_slime.report.data import RunData
from spader_slime.report.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    draw,
    draw_both,
    iterations,
    legend,
    panels,
    percent,
)

_KL = (
    ("spader/distill/reverse_kl", BLUE, "reverse, all tokens"),
    ("train/gated_forward_kl", ORANGE, "forward, gated tokens"),
)
_ENTROPY = (
    ("spader/distill/teacher_entropy", GREY, "teacher, all tokens"),
    ("spader/distill/student_entropy", BLUE, "student, all tokens"),
    ("train/gated_entropy", ORANGE, "student, gated tokens"),
)


def distillation(run: RunData) -> Figure | None:
    """KL, entropies and F1; None for a run without a teacher."""
    if not len(run.curve(TRAIN, _KL[0][0])):
        return None
    figure, (left, middle, right) = panels(3)
    for axis, title, lines in (
        (left, "KL to the teacher, nats", _KL),
        (middle, "Entropy, nats", _ENTROPY),
    ):
        for key, color, label in lines:
            if len(curve := run.curve(TRAIN, key)):
                draw(axis, curve, color, label)
        iterations(axis, title)
        axis.set_ylim(bottom=0)
        legend(axis)
    draw_both(right, run, "f1", GREEN, "F1")
    iterations(right, "F1")
    percent(right)
    return figure
