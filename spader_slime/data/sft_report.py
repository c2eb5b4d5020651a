"""What became of the rows of a fine-tuning file."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spader_slime.data.figures import distribution, listing
from spader_slime.data.report import Losses
from spader_slime.data.sft_render import Rendered


@dataclass
class SftReport(Losses):
    """Counts; rows_in = rows_out + all of left_out + all of bad.

    Attributes:
        bad: broken rows by reason.
        left_out: sound rows that can't be learned from, by reason.
        examples: reason -> places of the first rows, with detail.
        notes: remark -> rows that were kept all the same.
        turns: assistant turns -> rows.
        tokens, learned: tokens, and tokens inside the loss -> rows; empty without a tokenizer.
    """

    rows_in: int = 0
    rows_out: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    turns: Counter[int] = field(default_factory=Counter)
    tokens: Counter[int] = field(default_factory=Counter)
    learned: Counter[int] = field(default_factory=Counter)

    def kept(self, turns: int, source: str, rendered: Rendered | None) -> None:
        """Count a row that is sound."""
        self.rows_out += 1
        self.turns[turns] += 1
        self.sources[source or "unnamed"] += 1
        if rendered is not None:
            self.tokens[len(rendered.ids)] += 1
            self.learned[sum(rendered.mask)] += 1

    def write(self, path: Path) -> None:
        """Write the report as JSON."""
        figures = {key: _short(getattr(self, key)) for key in ("turns", "tokens", "learned")}
        text = json.dumps({**vars(self), **figures}, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")

    def lines(self) -> list[str]:
        """The report as text."""
        return [
            f"rows in: {self.rows_in}, rows out: {self.rows_out}",
            *self.reasons("broken rows", self.bad),
            *self.reasons("rows left out", self.left_out),
            *listing("rows kept with a remark", self.notes),
            "sources: " + ", ".join(f"{name} {n}" for name, n in self.sources.items()),
            *_figures("assistant turns per row", self.turns),
            *_figures("tokens per row", self.tokens),
            *_figures("learned tokens per row", self.learned),
        ]


def _short(counts: Counter[int]) -> dict[str, Any]:
    return {name: value for name, value in distribution(counts).items() if name != "bins"}


def _figures(title: str, counts: Counter[int]) -> list[str]:
    found = _short(counts)
    if not counts:
        return []
    return [
        f"{title}: mean {found['mean']}, median {found['median']}, "
        f"{found['min']} to {found['max']}, {found['total']} in all"
    ]
