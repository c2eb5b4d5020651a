"""Figures of a file of slime rows, as a whole and by source."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from spader_slime.data.figures import distribution, one_line
from spader_slime.data.reading import count_records
from spader_slime.data.rows import Keys, Row, sound_rows


@dataclass
class Figures:
    """Counts over rows; each Counter maps a value to how many rows (or answers) have it."""

    rows: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    aliases: Counter[int] = field(default_factory=Counter)
    words: Counter[int] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    tiers: Counter[str] = field(default_factory=Counter)
    prompts: Counter[str] = field(default_factory=Counter)

    def add(self, row: Row) -> None:
        """Count a row."""
        self.rows += 1
        self.answers[len(row.gold)] += 1
        self.aliases.update(map(len, row.gold))
        self.words[len(row.question.split())] += 1
        self.kinds[str(row.metadata.get("kind") or "none")] += 1
        self.tiers.update(tier or "none" for tier in row.metadata.get("tiers") or ())
        self.prompts["text" if isinstance(row.prompt, str) else "messages"] += 1

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "rows": self.rows,
            "answers_per_question": distribution(self.answers),
            "aliases_per_answer": distribution(self.aliases),
            "words_per_question": distribution(self.words),
            "prompts": dict(self.prompts),
            "kinds": dict(self.kinds.most_common()),
            "tiers": dict(self.tiers),
        }


def file_stats(path: Path, keys: Keys) -> dict[str, Any]:
    """Figures of all rows, and under `sources` of each source where there are several.

    Raises:
        DataError: an unreadable file or a bad row.
    """
    whole = Figures()
    sources: dict[str, Figures] = {}
    total = count_records(path)
    for row in tqdm(sound_rows(path, keys), desc=path.name, total=total, disable=None):
        whole.add(row)
        source = str(row.metadata.get("source") or "none")
        sources.setdefault(source, Figures()).add(row)
    return {**whole.to_dict(), "sources": {name: s.to_dict() for name, s in sources.items()}}


def stats_lines(path: Path, stats: dict[str, Any]) -> list[str]:
    """The figures as text."""
    lines = [str(path), *_lines(stats)]
    for name, figures in stats["sources"].items() if len(stats["sources"]) > 1 else ():
        lines += [f"source {name}", *(f"  {line}" for line in _lines(figures))]
    return lines


def _lines(stats: dict[str, Any]) -> list[str]:
    counted = [
        f"{name}: " + ", ".join(f"{value} {n}" for value, n in stats[name].items())
        for name in ("prompts", "kinds", "tiers")
        if set(stats[name]) - {"none"}
    ]
    spread = [one_line(k.replace("_", " "), v) for k, v in stats.items() if k.endswith(_PER)]
    return [f"rows: {stats['rows']}", *counted, *spread]


_PER = ("_per_question", "_per_answer")
