"""One group of trajectories laid side by side: a row for each peer, a column for each step."""

from __future__ import annotations

from textwrap import shorten
from typing import Any

from matplotlib import colormaps
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from spader_slime.episode import Turn, TurnKind
from spader_slime.local.dumps import Group, Peer
from spader_slime.report.data import RunData
from spader_slime.report.style import GREY, INK, panels

CELL = (1.55, 0.62)  # inches
LETTERS = 24  # of a query that fit into a cell


def group(run: RunData) -> Figure | None:
    """Cells are colored by advantage and say what was asked and what was new."""
    found = run.last_group
    if found is None:
        return None
    steps = max(len(peer.episode.turns) for peer in found.peers)
    width, height = CELL[0] * (steps + 1.1), CELL[1] * (len(found.peers) + 0.9)
    figure, (axis,) = panels(1, size=(width, height))
    scale = _scale(found)
    for row, peer in enumerate(found.peers):
        _label(axis, row, peer)
        for step in range(len(peer.episode.turns)):
            _cell(axis, row, step, peer, scale)
    _frame(axis, found, steps)
    return figure


def _scale(found: Group) -> TwoSlopeNorm:
    values = [abs(a) for peer in found.peers for a in peer.credit.advantages_S]
    bound = max([*values, 1e-6])
    return TwoSlopeNorm(0.0, -bound, bound)


def _label(axis: Any, row: int, peer: Peer) -> None:
    seen, gold = len(peer.credit.seen), peer.credit.score.num_gold
    ended = "" if peer.episode.answered else f" ({peer.episode.end.value.replace('_', ' ')})"
    axis.text(-0.08, row - 0.14, f"peer {row}{ended}", ha="right", va="center", weight="bold")
    text = f"F1 {peer.credit.score.f1:.2f}, saw {seen} of {gold}"
    axis.text(-0.08, row + 0.17, text, ha="right", va="center", fontsize=8, color="#57606a")


def _cell(axis: Any, row: int, step: int, peer: Peer, scale: TwoSlopeNorm) -> None:
    advantage = peer.credit.advantages_S[step]
    color = colormaps["RdBu"](0.5 + 0.42 * (scale(advantage) - 0.5))
    box = FancyBboxPatch(
        (step + 0.04, row - 0.42),
        0.92,
        0.84,
        boxstyle="round,pad=0,rounding_size=0.06",
        mutation_aspect=CELL[0] / CELL[1],
        facecolor=color if peer.credit.included else "white",
        edgecolor="#d0d7de",
    )
    axis.add_patch(box)
    what, new = _said(peer.episode.turns[step]), len(peer.new_S[step])
    axis.text(step + 0.5, row - 0.15, what, ha="center", va="center", fontsize=8, color=INK)
    below = f"{f'+{new} new   ' if new else ''}A {advantage:+.2f}"
    weight = "bold" if new else "normal"
    axis.text(step + 0.5, row + 0.2, below, ha="center", va="center", fontsize=8, weight=weight)


def _said(turn: Turn) -> str:
    if turn.kind is TurnKind.SEARCH:
        text = "; ".join(turn.queries)
    else:
        text = "answer" if turn.kind is TurnKind.ANSWER else turn.kind.value
    return shorten(text, LETTERS, placeholder="…") or text[:LETTERS]


def _frame(axis: Any, found: Group, steps: int) -> None:
    for step in range(steps):
        place = {"ha": "center", "va": "center", "fontsize": 8.5, "color": GREY}
        axis.text(step + 0.5, -0.72, f"step {step + 1}", **place)
    axis.set(xlim=(-1.1, steps), ylim=(len(found.peers) - 0.45, -0.95))
    axis.set_title(found.question, fontsize=11)
    axis.axis("off")
