"""Advantages against slow loops written from the paper, and what must not change them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spader_slime.algorithms.advantage import step_peer_advantage, trajectory_advantage
from spader_slime.errors import DataError

BOTH = pytest.mark.parametrize("estimator", [step_peer_advantage, trajectory_advantage])
Peers = list[list[float]]  # step rewards of each peer of one group

peers = st.lists(st.lists(st.floats(-10, 10, width=32), max_size=5), min_size=1, max_size=6)
gammas = st.floats(0, 1)


def padded(rows: Peers, width: int | None = None, fill: float = 0.0) -> np.ndarray[Any, Any]:
    width = max(map(len, rows), default=0) if width is None else width
    return np.array([row + [fill] * (width - len(row)) for row in rows]).reshape(len(rows), width)


def lengths(rows: Peers) -> list[int]:
    return [len(row) for row in rows]


def slow_spa(rows: Peers, gamma: float, eps: float = 1e-6) -> tuple[Peers, Peers]:
    """SPADER, section 2, item by item."""
    returns = [
        [sum(gamma ** (k - t) * row[k] for k in range(t, len(row))) for t in range(len(row))]
        for row in rows
    ]
    advantages: Peers = [[] for _ in rows]
    for t in range(max(map(len, rows), default=0)):
        column = [own[t] if t < len(own) else 0.0 for own in returns]
        mean = math.fsum(column) / len(column)
        variance = math.fsum((value - mean) ** 2 for value in column) / len(column)
        for i, own in enumerate(returns):
            if t < len(own):
                advantages[i].append((own[t] - mean) / math.sqrt(variance + eps))
    return advantages, returns


def slow_grpo(rows: Peers, eps: float = 1e-6) -> Peers:
    totals = [math.fsum(row) for row in rows]
    mean = math.fsum(totals) / len(totals)
    scale = math.sqrt(math.fsum((x - mean) ** 2 for x in totals) / len(totals) + eps)
    return [[(x - mean) / scale] * len(row) for x, row in zip(totals, rows, strict=True)]


@given(peers, gammas)
def test_spa_equals_the_slow_loop(rows: Peers, gamma: float) -> None:
    advantages, returns = step_peer_advantage(padded(rows), lengths(rows), [3] * len(rows), gamma)
    want_advantages, want_returns = slow_spa(rows, gamma)
    assert advantages.dtype == returns.dtype == np.float64
    np.testing.assert_allclose(returns, padded(want_returns), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(advantages, padded(want_advantages), rtol=1e-6, atol=1e-6)


@given(peers, gammas)
def test_grpo_equals_the_slow_loop(rows: Peers, gamma: float) -> None:
    advantages, _ = trajectory_advantage(padded(rows), lengths(rows), [3] * len(rows), gamma)
    np.testing.assert_allclose(advantages, padded(slow_grpo(rows)), rtol=1e-6, atol=1e-6)


@BOTH
@given(groups=st.lists(peers, min_size=1, max_size=4), gamma=gammas, data=st.data())
def test_groups_do_not_touch_each_other_in_any_order(
    estimator: Any, groups: list[Peers], gamma: float, data: st.DataObject
) -> None:
    rows = [row for group in groups for row in group]
    names = [7 - 3 * g for g, group in enumerate(groups) for _ in group]
    order = data.draw(st.permutations(range(len(rows))))
    mixed = [rows[i] for i in order]
    advantages, returns = estimator(padded(mixed), lengths(mixed), [names[i] for i in order], gamma)
    alone = [estimator(padded(g), lengths(g), [0] * len(g), gamma) for g in groups]
    want = [row for one, _ in alone for row in one]
    want_returns = [row for _, one in alone for row in one]
    for place, i in enumerate(order):
        size = len(rows[i])
        np.testing.assert_allclose(advantages[place, :size], want[i][:size], atol=1e-9)
        np.testing.assert_allclose(returns[place, :size], want_returns[i][:size], atol=1e-9)
        assert not advantages[place, size:].any() and not returns[place, size:].any()


@BOTH
@given(rows=peers, extra=st.integers(0, 3), fill=st.sampled_from([0.0, 9.0, math.nan, math.inf]))
def test_padding_is_never_read(estimator: Any, rows: Peers, extra: int, fill: float) -> None:
    width = max(map(len, rows)) + extra
    group = [0] * len(rows)
    plain = estimator(padded(rows), lengths(rows), group)
    wide = estimator(padded(rows, width, fill), lengths(rows), group)
    for narrow, broad in zip(plain, wide, strict=True):
        np.testing.assert_array_equal(broad[:, : narrow.shape[1]], narrow)
        assert not broad[:, narrow.shape[1] :].any()


@given(st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=8), gammas)
def test_one_step_each_is_grpo(rewards: list[float], gamma: float) -> None:
    table, ones, group = [[r] for r in rewards], [1] * len(rewards), [0] * len(rewards)
    np.testing.assert_allclose(
        step_peer_advantage(table, ones, group, gamma)[0],
        trajectory_advantage(table, ones, group, gamma)[0],
        atol=1e-12,
    )


@given(peers, gammas)
def test_advantages_of_a_full_step_sum_to_zero_with_variance_below_one(
    rows: Peers, gamma: float
) -> None:
    alive = [row for row in rows if row] or [[1.0]]
    advantages, _ = step_peer_advantage(padded(alive), lengths(alive), [0] * len(alive), gamma)
    assert abs(advantages[:, 0].sum()) < 1e-6
    assert (advantages[:, 0] ** 2).mean() < 1 + 1e-9


@BOTH
def test_a_group_of_one_learns_nothing(estimator: Any) -> None:
    advantages, returns = estimator([[0.5, -1.0]], [2], [4])
    assert not advantages.any() and returns.any()


@BOTH
def test_equal_rewards_give_no_advantage(estimator: Any) -> None:
    advantages, _ = estimator([[0.1, 0.7]] * 5, [2] * 5, [0] * 5)
    np.testing.assert_allclose(advantages, 0, atol=1e-9)


@BOTH
def test_eps_may_be_zero(estimator: Any) -> None:
    advantages, _ = estimator([[1.0], [1.0], [2.0], [0.0]], [1] * 4, [0, 0, 1, 1], eps=0.0)
    np.testing.assert_array_equal(advantages, [[0.0], [0.0], [1.0], [-1.0]])


def test_the_last_peer_alive_gets_the_known_value_whatever_its_return() -> None:
    for reward in (0.01, 5.0):
        rewards = np.zeros((16, 2))
        rewards[0, 1] = reward
        advantages, _ = step_peer_advantage(rewards, [2] + [1] * 15, [0] * 16)
        assert advantages[0, 1] == pytest.approx(math.sqrt(15), rel=0.2)


def test_a_peer_without_steps_counts_with_zero() -> None:
    advantages, _ = step_peer_advantage([[1.0], [0.0]], [1, 0], [0, 0])
    np.testing.assert_allclose(advantages, [[0.999998], [0.0]], atol=1e-6)


@BOTH
def test_nothing_in_nothing_out(estimator: Any) -> None:
    assert estimator([], [], [])[0].shape == (0, 0)
    assert estimator(np.zeros((2, 0)), [0, 0], [0, 1])[0].shape == (2, 0)


@BOTH
@pytest.mark.parametrize(
    ("rewards", "steps", "groups", "options", "says"),
    [
        ([[math.nan]], [1], [0], {}, "trajectory 0, step 0"),
        ([[0.0, math.inf]], [2], [0], {}, "step 1"),
        ([[1.0]], [2], [0], {}, r"0\.\.1"),
        ([[1.0]], [-1], [0], {}, r"0\.\.1"),
        ([[1.0]], [0.5], [0], {}, "whole numbers"),
        ([[1.0]], ["x"], [0], {}, "whole numbers"),
        ([[1.0]], [math.nan], [0], {}, "whole numbers"),
        ([[1.0]], [1, 1], [0], {}, "as many step counts"),
        ([[1.0]], [1], [0, 0], {}, "as many step counts"),
        ([1.0], [1], [0], {}, "table"),
        ([[1.0], [1.0, 2.0]], [1, 2], [0, 0], {}, "table of numbers"),
        ([["a"]], [1], [0], {}, "table of numbers"),
        ([[1.0]], [1], [0], {"gamma": 1.5}, "gamma"),
        ([[1.0]], [1], [0], {"gamma": math.nan}, "gamma"),
        ([[1.0]], [1], [0], {"gamma": "high"}, "gamma"),
        ([[1.0]], [1], [0], {"eps": -1.0}, "eps"),
    ],
)
def test_bad_input_is_named(
    estimator: Any, rewards: Any, steps: Any, groups: Any, options: Any, says: str
) -> None:
    with pytest.raises(DataError, match=says):
        estimator(rewards, steps, groups, **options)
