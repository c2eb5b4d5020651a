from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spader_slime.algorithms.advantage import spread_batch, spread_over_tokens
from spader_slime.errors import DataError

Span = tuple[int, int]


@st.composite
def trajectories(draw: st.DrawFn) -> tuple[list[float], list[Span], int]:
    """Advantages, spans in order, and the number of tokens."""
    borders = sorted(draw(st.lists(st.integers(0, 30), max_size=12)))
    spans = list(zip(borders[::2], borders[1::2], strict=False))
    advantages = [draw(st.floats(-4, 4, width=32)) for _ in spans]
    return advantages, spans, draw(st.integers(max(borders, default=0), 40))


def slow_spread(advantages: list[float], spans: list[Span], length: int) -> list[float]:
    values = [0.0] * length
    for token in range(length):
        for advantage, (start, end) in zip(advantages, spans, strict=True):
            if start <= token < end:
                values[token] = advantage
    return values


@given(trajectories(), st.integers(0, 3))
def test_every_token_of_a_step_has_its_advantage(
    trajectory: tuple[list[float], list[Span], int], padding: int
) -> None:
    advantages, spans, length = trajectory
    spread = spread_over_tokens(advantages + [0.0] * padding, spans, length)
    assert spread.dtype == np.float32 and spread.shape == (length,)
    np.testing.assert_allclose(spread, slow_spread(advantages, spans, length), rtol=1e-6)


@given(st.lists(trajectories(), max_size=6), st.integers(0, 5))
def test_a_batch_is_its_rows(batch: list[tuple[list[float], list[Span], int]], extra: int) -> None:
    steps = max((len(advantages) for advantages, _, _ in batch), default=0)
    table = np.zeros((len(batch), steps))
    for row, (advantages, _, _) in enumerate(batch):
        table[row, : len(advantages)] = advantages
    lengths = [length for _, _, length in batch]
    width = max(lengths, default=0) + extra
    spread = spread_batch(table, [spans for _, spans, _ in batch], lengths, width)
    assert spread.shape == (len(batch), width) and spread.dtype == np.float32
    for row, trajectory in zip(spread, batch, strict=True):
        np.testing.assert_array_equal(row[: trajectory[2]], spread_over_tokens(*trajectory))
        assert not row[trajectory[2] :].any()


def test_width_defaults_to_the_longest() -> None:
    assert spread_batch([[1.0], [2.0]], [[(0, 1)], [(1, 3)]], [2, 3]).tolist() == [
        [1.0, 0.0, 0.0],
        [0.0, 2.0, 2.0],
    ]


BAD = [
    ([1.0], [(0, 3)], 2, "leaves 0..2"),
    ([1.0], [(-1, 1)], 2, "leaves 0..2"),
    ([1.0], [(2, 1)], 2, "step span"),
    ([1.0, 1.0], [(0, 2), (1, 3)], 3, "overlaps"),
    ([1.0], [(0, 1), (1, 2)], 3, "2 step spans but 1"),
    ([1.0, 2.0], [(0, 1)], 3, "must be 0"),
    ([math.nan], [(0, 1)], 3, "finite"),
    ([math.inf], [(0, 1)], 3, "finite"),
    ([[1.0]], [(0, 1)], 3, "axes"),
    (["a"], [(0, 1)], 3, "numbers"),
    ([1.0], [(0, 1, 2)], 3, "pair"),
    ([], [], -1, ">= 0"),
    ([], [], 2.5, ">= 0"),
]


@pytest.mark.parametrize(("advantages", "spans", "length", "says"), BAD)
def test_bad_input_is_named(advantages: Any, spans: Any, length: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        spread_over_tokens(advantages, spans, length)


@pytest.mark.parametrize(
    ("table", "spans", "lengths", "width", "says"),
    [
        ([[1.0]], [[(0, 3)]], [2], None, "leaves 0..2"),
        ([[1.0], [1.0]], [[(0, 1)], [(-1, 1)]], [1, 1], None, "leaves"),
        ([[1.0, 1.0]], [[(0, 2), (1, 3)]], [3], None, "overlaps"),
        ([[1.0]], [[(0, 1), (1, 2)]], [3], None, "2 step spans but 1"),
        ([[1.0, 2.0]], [[(0, 1)]], [3], None, "must be 0"),
        ([[math.nan]], [[(0, 1)]], [3], None, "finite"),
        ([[1.0]], [[(0, 1)]], [3], 2, "lengths must lie in"),
        ([[1.0]], [[(0, 1)]], [-1], 2, "lengths must lie in"),
        ([[1.0]], [[(0, 1)]], [1, 1], None, "2 lengths"),
        ([[1.0, 1.0]], [[(0, 1, 2), (3,)]], [4], None, "pair"),
        ([1.0], [[(0, 1)]], [3], None, "axes"),
    ],
)
def test_bad_batches_are_named(
    table: Any, spans: Any, lengths: Any, width: int | None, says: str
) -> None:
    with pytest.raises(DataError, match=says):
        spread_batch(table, spans, lengths, width)
