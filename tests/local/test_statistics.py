"""Intervals over seeds, against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from spader_slime.errors import DataError
from spader_slime.local.statistics import mean_interval, paired_difference

VALUES = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=31)


@given(VALUES)
def test_interval_is_students(values: list[float]) -> None:
    found = mean_interval(values)
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    assert found.mean == pytest.approx(np.mean(values), abs=1e-9)
    assert found.half_width == pytest.approx(half, rel=4e-4, abs=1e-9)
    assert found.low <= found.mean <= found.high


def test_one_seed_says_nothing_about_spread() -> None:
    assert mean_interval([0.5]).half_width == math.inf


@pytest.mark.parametrize("values", [[], [0.1, math.nan], [math.inf]])
def test_nothing_to_average(values: list[float]) -> None:
    with pytest.raises(DataError):
        mean_interval(values)


@given(VALUES, st.floats(-10, 10))
def test_paired_difference_removes_what_seeds_share(values: list[float], gain: float) -> None:
    found = paired_difference([v + gain for v in values], values)
    assert found.mean == pytest.approx(gain, abs=1e-6)
    assert found.half_width == pytest.approx(0.0, abs=1e-6)


def test_pairs_must_match() -> None:
    with pytest.raises(DataError, match="2 and 1"):
        paired_difference([1.0, 2.0], [1.0])
