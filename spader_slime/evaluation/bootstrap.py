"""Bootstrap over questions: how far a mean would move with other questions of the same kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
LEVEL = 0.95
SEED = 0


@dataclass(frozen=True)
class Estimate:
    """A mean over questions with its percentile interval.

    `low` and `high` are None for fewer than two questions.
    """

    mean: float
    low: float | None
    high: float | None

    def to_dict(self) -> dict[str, float | None]:
        return {"mean": self.mean, "low": self.low, "high": self.high}


def estimates(values_QM: NDArray[np.float64]) -> list[Estimate | None]:
    """For each column the mean over its rows that are not NaN; None where there is none.

    All columns share the same resamples of the rows, drawn from a fixed seed.

    Args:
        values_QM: [questions, measures].
    """
    known_QM = ~np.isnan(values_QM)
    filled_QM = np.where(known_QM, values_QM, 0.0)
    counts_M = known_QM.sum(0)
    means_RM = _resampled(filled_QM, known_QM)
    return [
        _estimate(filled_QM[:, m].sum() / counts_M[m], means_RM[:, m], int(counts_M[m]))
        if counts_M[m]
        else None
        for m in range(values_QM.shape[1])
    ]


def _resampled(filled_QM: NDArray[np.float64], known_QM: NDArray[np.bool_]) -> NDArray[np.float64]:
    """[resamples, measures]: means over questions drawn with replacement."""
    questions = len(filled_QM)
    draw = np.random.default_rng(SEED)
    even = np.full(questions, 1.0 / max(questions, 1))
    weights_RQ = draw.multinomial(questions, even, RESAMPLES).astype(np.float64)
    with np.errstate(invalid="ignore"):  # a resample may miss every question of a rare kind
        return (weights_RQ @ filled_QM) / (weights_RQ @ known_QM.astype(np.float64))


def _estimate(mean: float, means_R: NDArray[np.float64], questions: int) -> Estimate:
    if questions < 2:
        return Estimate(float(mean), None, None)
    tail = (1.0 - LEVEL) / 2
    low, high = np.nanquantile(means_R, [tail, 1.0 - tail])
    return Estimate(float(mean), float(low), float(high))


def sign_probability(differences_Q: NDArray[np.float64]) -> float:
    """Two-sided bootstrap p-value of "the mean difference is 0"; 1.0 where all are 0.

    Twice the smaller share of resamples on either side of 0, counting 0 on both sides.
    """
    known = differences_Q[~np.isnan(differences_Q)]
    if not known.any():
        return 1.0
    means_R = _resampled(known[:, None], np.ones((len(known), 1), dtype=bool))[:, 0]
    sides = ((means_R <= 0).sum() + 1, (means_R >= 0).sum() + 1)
    return float(min(1.0, 2 * min(sides) / (RESAMPLES + 1)))
