"""From logged trajectories to numbers, under one of the scorings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spader_slime.agent.protocols.spader import without_sources
from spader_slime.algorithms.gold import Gold
from spader_slime.algorithms.scoring import RECALL_AT, AnswerKey, AnswerScore
from spader_slime.scorings import Reference, Scoring

RECALLS = {f"recall_at_{k}": f"recall@{k}" for k in RECALL_AT}
SCORES = {
    "recall": "recall",
    "precision": "precision",
    "f1": "F1",
    **RECALLS,
    "exact_match": "exact match",
    "invalid_format": "invalid",
}
COUNTS = {"calls": "calls", "turns": "turns", "tokens": "tokens"}
TIERS = ("head", "tail")


@dataclass(frozen=True)
class Scored:
    """One trajectory in numbers.

    Attributes:
        line: as logged.
        prediction: answers as the scoring reads them; None: no valid answer.
        values: by the names of `SCORES` (shares in 0..1), `COUNTS` (per trajectory; tokens are
            those of the response), `recall_head`, `recall_tail` (where answers have tiers; any
            alias counts, whatever the scoring) and `seen` (share of the gold answers that
            documents named). What a scoring does not know is missing.
        tiers: of the gold answers.
    """

    line: Mapping[str, Any]
    prediction: list[str] | None
    values: dict[str, float]
    tiers: Sequence[str | None] = ()

    @property
    def question(self) -> tuple[str, int]:
        return self.line["dataset"], self.line["number"]


@dataclass(frozen=True)
class Scorer:
    """Scores logged trajectories.

    Attributes:
        protocol: name of the protocol that wrote the answers.
        tiers: (data set, number) -> tier of each gold answer; replaces what the data says.
    """

    scoring: Scoring
    protocol: str
    tiers: Mapping[tuple[str, int], Sequence[str | None]] = field(default_factory=dict)

    def all(self, lines: Iterable[Mapping[str, Any]]) -> list[Scored]:
        """Each line scored.

        Raises:
            DataError: the scoring has no rule for a question's source.
        """
        return [self.one(line) for line in lines]

    def one(self, line: Mapping[str, Any]) -> Scored:
        """See `all`."""
        prediction = self._read(line)
        reference = Reference.of(line["gold"], line)
        score = self.scoring.score(prediction, reference)
        tiers = self.tiers.get((line["dataset"], line["number"]), line["tiers"])
        values = {
            **_scores(score),
            "invalid_format": float(prediction is None),
            **_counts(line),
            **_tier_recalls(prediction, reference.gold, tiers),
            "seen": len(line["seen"]) / len(line["gold"]),
        }
        return Scored(line, prediction, values, tiers)

    def _read(self, line: Mapping[str, Any]) -> list[str] | None:
        """The authors read all turns in their own way; otherwise the loop's reading counts."""
        if self.scoring.name != "authors":
            answer: list[str] | None = line["answer"]
            return answer
        found = self.scoring.read([turn["text"] for turn in line["turns"]])
        cited = self.protocol == "spader_cited" and found is not None
        return without_sources(found or ()) if cited else found


def _scores(score: AnswerScore) -> dict[str, float]:
    return {
        "recall": score.recall,
        "precision": score.precision,
        "f1": score.f1,
        **{f"recall_at_{k}": value for k, value in score.recall_at.items()},
        "exact_match": float(score.exact_match),
    }


def _counts(line: Mapping[str, Any]) -> dict[str, float]:
    return {
        "calls": float(sum(turn["calls"] for turn in line["turns"])),
        "turns": float(len(line["turns"])),
        "tokens": float(line["response_tokens"]),
    }


def _tier_recalls(
    prediction: Sequence[str] | None, gold: Gold, tiers: Sequence[str | None]
) -> dict[str, float]:
    found = {}
    for tier in TIERS:
        own = [aliases for aliases, its in zip(gold, tiers, strict=False) if its == tier]
        if own:
            found[f"recall_{tier}"] = AnswerKey(own).score(prediction).recall
    return found
