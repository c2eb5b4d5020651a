"""Predicted answers against the gold set: precision, recall and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spader_slime.algorithms.gold import as_gold
from spader_slime.algorithms.normalization import normalize
from spader_slime.errors import DataError

RECALL_AT = (5, 10, 20, 50)


@dataclass(frozen=True)
class AnswerScore:
    """How a set of predicted answers compares with the gold set; all shares in 0..1.

    Attributes:
        precision: entities named / num_predicted (0 when nothing was predicted).
        recall: entities named / num_gold.
        f1: harmonic mean of the two.
        recall_at: k -> entities named / min(k, num_gold), at most 1; answers are not ranked.
        exact_match: every gold entity was named and nothing else.
        num_predicted: different things predicted; names of one gold entity count once.
        num_gold: gold entities.
        repeated: predictions that only repeat an earlier one.
    """

    precision: float
    recall: float
    f1: float
    recall_at: dict[int, float]
    exact_match: bool
    num_predicted: int
    num_gold: int
    repeated: int

    @property
    def recall_at_5(self) -> float:
        return self.recall_at[5]

    @property
    def recall_at_10(self) -> float:
        return self.recall_at[10]

    @property
    def recall_at_20(self) -> float:
        return self.recall_at[20]

    @property
    def recall_at_50(self) -> float:
        return self.recall_at[50]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `from_dict` is the inverse."""
        return {**asdict(self), "recall_at": {str(k): v for k, v in self.recall_at.items()}}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AnswerScore:
        return cls(**{**data, "recall_at": {int(k): v for k, v in data["recall_at"].items()}})


def score_answer(predicted: Sequence[str] | None, gold: Any) -> AnswerScore:
    """Compare predicted answers with gold entities, both normalized; any alias counts.

    Predictions that are equal after normalization, or that name the same gold entity, count
    once, in precision too; blank ones don't count. A name that two gold entities share names
    both. None (no valid answer) scores like an empty list.

    Raises:
        DataError: `predicted` is a string or holds something else than strings; bad gold
            (see `gold.as_gold`).
    """
    return AnswerKey(gold).score(predicted)


class AnswerKey:
    """The gold set of one question, normalized once to score many answers (`score_answer`).

    Raises:
        DataError: bad gold (see `gold.as_gold`).
    """

    def __init__(self, gold: Any) -> None:
        entities = as_gold(gold)
        self.num_gold = len(entities)
        self._named_by: dict[str, set[int]] = {}
        for entity, aliases in enumerate(entities):
            for alias in aliases:
                self._named_by.setdefault(normalize(alias), set()).add(entity)

    def score(self, predicted: Sequence[str] | None) -> AnswerScore:
        """See `score_answer`."""
        found: set[int] = set()
        wrong: set[str] = set()
        repeated = 0
        for name in _predictions(predicted):
            owners = self._named_by.get(name, set())
            repeated += owners <= found if owners else name in wrong
            found |= owners
            wrong |= set() if owners else {name}
        return _score(len(found), len(wrong), self.num_gold, repeated)


def _predictions(predicted: Any) -> list[str]:
    if predicted is None:
        return []
    if not isinstance(predicted, (list, tuple, set, frozenset, np.ndarray)):
        raise DataError(f"predicted answers must be a list of strings, not {predicted!r:.60}")
    for name in predicted:
        if not isinstance(name, str):
            raise DataError(f"a predicted answer must be a string, not {name!r:.60}")
    return [form for form in map(normalize, predicted) if form]


def _score(found: int, wrong: int, num_gold: int, repeated: int) -> AnswerScore:
    num_predicted = found + wrong
    return AnswerScore(
        precision=found / num_predicted if num_predicted else 0.0,
        recall=found / num_gold,
        f1=2 * found / (num_predicted + num_gold),
        recall_at={k: min(1.0, found / min(k, num_gold)) for k in RECALL_AT},
        exact_match=found == num_gold and wrong == 0,
        num_predicted=num_predicted,
        num_gold=num_gold,
        repeated=repeated,
    )
