"""What a conversion did with every row."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spader_slime.algorithms.normalization import normalize
from spader_slime.data.figures import distribution, listing, one_line
from spader_slime.data.question import BadRecord, LeftOut, Question

EXAMPLES = 20  # rows left out that are named, by reason


class Losses:
    """Rows that were not kept, and why; part of a report that holds the counts.

    Attributes:
        bad: broken rows by reason.
        left_out: sound rows that can't be used, by reason.
        examples: reason -> places of the first `EXAMPLES` rows, with detail.
    """

    bad: Counter[str]
    left_out: Counter[str]
    examples: dict[str, list[str]]

    def lost(self, place: str, why: BadRecord) -> None:
        """Count a row that was not."""
        (self.left_out if isinstance(why, LeftOut) else self.bad)[why.reason] += 1
        named = self.examples.setdefault(why.reason, [])
        if len(named) < EXAMPLES:
            named.append(f"{place}: {why.detail}" if why.detail else place)

    def reasons(self, title: str, counts: Counter[str]) -> list[str]:
        """Their numbers and first places, as text."""
        if not counts:
            return []
        lines = [f"{title}: {counts.total()}"]
        for reason, n in counts.most_common():
            shown = self.examples[reason][:3]
            lines += [f"  {n} x {reason}", *(f"      {place}" for place in shown)]
            lines += ["      ..."] if n > len(shown) else []
        return lines


@dataclass
class Report(Losses):
    """Counts of a conversion; rows_in = rows_out + all of left_out + all of bad.

    Attributes:
        bad: broken rows by reason.
        left_out: sound rows that can't be trained on, by reason.
        examples: reason -> places of the first `EXAMPLES` rows, with detail.
        answers_left_out, aliases_left_out: in rows that were kept, by reason.
        repeated: rows that ask what an earlier row asked; they are kept.
    """

    format: str
    inputs: list[str]
    output: str
    rows_in: int = 0
    rows_out: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    answers_left_out: Counter[str] = field(default_factory=Counter)
    aliases_left_out: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    answers: Counter[int] = field(default_factory=Counter)
    aliases: Counter[int] = field(default_factory=Counter)
    repeated: int = 0
    _asked: set[int] = field(default_factory=set)

    def kept(self, found: Question) -> None:
        """Count a row that was written."""
        self.rows_out += 1
        self.sources[found.source] += 1
        self.answers[len(found.gold)] += 1
        self.aliases.update(map(len, found.gold))
        self.answers_left_out += found.answers.answers_left_out
        self.aliases_left_out += found.answers.aliases_left_out
        self.notes += found.answers.notes
        asked = hash(normalize(found.question))
        self.repeated += asked in self._asked
        self._asked.add(asked)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        public = {k: v for k, v in vars(self).items() if not k.startswith("_")}
        figures = {
            "answers_per_question": distribution(public.pop("answers")),
            "aliases_per_answer": distribution(public.pop("aliases")),
        }
        return {**public, **figures}

    def write(self, path: Path) -> None:
        """Write the report as JSON."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")

    def lines(self) -> list[str]:
        """The report as text."""
        return [
            f"rows in: {self.rows_in}, rows out: {self.rows_out}",
            *self.reasons("broken rows", self.bad),
            *self.reasons("rows left out", self.left_out),
            *listing("answers left out of rows kept", self.answers_left_out),
            *listing("aliases left out of answers kept", self.aliases_left_out),
            *listing("answers with a remark", self.notes),
            *([f"rows that repeat a question (kept): {self.repeated}"] if self.repeated else []),
            "sources: " + ", ".join(f"{name} {n}" for name, n in self.sources.items()),
            one_line("answers per question", distribution(self.answers)),
            one_line("aliases per answer", distribution(self.aliases)),
        ]
