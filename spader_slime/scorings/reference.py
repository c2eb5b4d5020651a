"""What an answer is scored against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spader_slime.algorithms.gold import Gold, as_gold


@dataclass(frozen=True)
class Reference:
    """The right answers of one question.

    Attributes:
        gold: entities by aliases, the main name first.
        source: the benchmark, which decides the official scoring.
        official: what the benchmark's own scorer compares with, parses by entities by aliases
            (metadata `official` of converted files); without it, `gold` is the only parse.
    """

    gold: Gold
    source: str = ""
    official: tuple[Gold, ...] = ()

    @property
    def parses(self) -> tuple[Gold, ...]:
        """The official reference, or `gold` in its place."""
        return self.official or (self.gold,)

    @classmethod
    def of(cls, label: Any, metadata: Mapping[str, Any] | None = None) -> Reference:
        """From the label and metadata of a row or sample.

        Raises:
            DataError: the label is no gold set.
        """
        known = metadata or {}
        parses = known.get("official") or ()
        official = tuple([[str(a) for a in entity] for entity in parse] for parse in parses)
        return cls(as_gold(label), str(known.get("source") or ""), official)
