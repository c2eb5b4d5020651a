"""Counts to scores."""

from __future__ import annotations

from spader_slime.algorithms.scoring import RECALL_AT, AnswerScore


def harmonic(precision: float, recall: float) -> float:
    """F1 of precision and recall; 0 when both are."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def answer_score(
    precision: float,
    recall: float,
    num_predicted: int,
    num_gold: int,
    exact: bool | None = None,
    f1: float | None = None,
) -> AnswerScore:
    """A score without recall@k and repeats.

    Args:
        exact: exact match; default: F1 is 1.
        f1: default: harmonic mean of the two.
    """
    mean = harmonic(precision, recall) if f1 is None else f1
    return AnswerScore(
        precision=precision,
        recall=recall,
        f1=mean,
        recall_at={},
        exact_match=mean == 1.0 if exact is None else exact,
        num_predicted=num_predicted,
        num_gold=num_gold,
        repeated=0,
    )


def recall_at(found: int, num_gold: int) -> dict[int, float]:
    """k -> entities found / min(k, gold entities), at most 1."""
    return {k: min(1.0, found / min(k, num_gold)) if num_gold else 0.0 for k in RECALL_AT}
