"""Means, 95 % intervals and paired differences over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spader_slime.errors import DataError

# Two-sided 97.5 % quantiles of Student's t for 1..30 degrees of freedom.
_T975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and the half-width of its 95 % t-interval (NaN-free; inf for one seed)."""

    mean: float
    half_width: float

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width


def mean_interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % t-interval of values from independent seeds.

    Raises:
        DataError: no values, or one that is not finite.
    """
    count = len(values)
    if not count or not all(math.isfinite(v) for v in values):
        raise DataError(f"need finite values to average, got {list(values)!r}")
    mean = math.fsum(values) / count
    if count == 1:
        return Interval(mean, math.inf)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (count - 1))
    quantile = _T975[count - 2] if count <= len(_T975) + 1 else 1.96
    return Interval(mean, quantile * deviation / math.sqrt(count))


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """Interval of ours - theirs, seed by seed (same order, same cold start).

    Raises:
        DataError: the two lists differ in length.
    """
    if len(ours) != len(theirs):
        raise DataError(f"paired runs differ in number: {len(ours)} and {len(theirs)}")
    return mean_interval([a - b for a, b in zip(ours, theirs, strict=True)])
