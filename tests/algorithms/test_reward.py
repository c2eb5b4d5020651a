"""The exploration reward against a slow loop written from the paper."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spader_slime.algorithms.reward import (
    answer_reward,
    cost_at,
    first_seen,
    group_rewards,
    peer_frequency,
)
from spader_slime.config import RewardConfig
from spader_slime.errors import DataError

NUM_GOLD = 6
steps = st.lists(
    st.tuples(st.sets(st.integers(0, NUM_GOLD - 1)), st.integers(0, 4)), max_size=5
)  # what a step shows, its calls
groups = st.lists(st.tuples(steps, st.floats(-1, 1)), min_size=1, max_size=5)
configs = st.builds(
    RewardConfig,
    alpha=st.floats(0, 3),
    beta=st.floats(0, 5),
    decay=st.floats(0, 3),
    cost=st.floats(0, 1),
    cost_free_steps=st.integers(0, 5),
    cost_rampup_steps=st.integers(0, 5),
)


def slow_cost(step: int, config: RewardConfig) -> float:
    if step < config.cost_free_steps:
        return 0.0
    done = step - config.cost_free_steps
    if done >= config.cost_rampup_steps:
        return config.cost
    return config.cost * done / config.cost_rampup_steps


def slow_rewards(group: Any, config: RewardConfig, step: int) -> list[list[float]]:
    """r_t = (1/|GT|) [sum over E_new of (alpha + beta exp(-lambda (N(e)-1))) - c calls_t]."""
    rows = []
    for peer, final in group:
        row = []
        for t, (shown, calls) in enumerate(peer):
            total = -slow_cost(step, config) * calls
            for e in range(NUM_GOLD):
                if e in shown and not any(e in earlier for earlier, _ in peer[:t]):
                    peers = sum(any(e in found for found, _ in other) for other, _ in group)
                    total += config.alpha + config.beta * math.exp(-config.decay * (peers - 1))
            row.append(total / NUM_GOLD + (final if t == len(peer) - 1 else 0.0))
        rows.append(row)
    return rows


def rewards_of(group: Any, config: RewardConfig, step: int) -> Any:
    return group_rewards(
        [[shown for shown, _ in peer] for peer, _ in group],
        [[calls for _, calls in peer] for peer, _ in group],
        [final for _, final in group],
        NUM_GOLD,
        config,
        step,
    )


@given(groups, configs, st.integers(0, 12))
def test_rewards_equal_the_slow_loop(group: Any, config: RewardConfig, step: int) -> None:
    fast, slow = rewards_of(group, config, step), slow_rewards(group, config, step)
    assert fast.num_steps_G.tolist() == [len(row) for row in slow]
    assert fast.cost == pytest.approx(slow_cost(step, config))
    for got, want in zip(fast.rewards_GS, slow, strict=True):
        np.testing.assert_allclose(got[: len(want)], want, rtol=1e-9, atol=1e-12)
        assert not got[len(want) :].any()


@given(groups, st.integers(0, 300))
def test_the_novelty_part_is_what_beta_adds(group: Any, step: int) -> None:
    full = rewards_of(group, RewardConfig(), step)
    without = rewards_of(group, RewardConfig(beta=0.0), step)
    np.testing.assert_allclose(full.rewards_GS - full.novelty_GS, without.rewards_GS, atol=1e-12)
    assert not without.novelty_GS.any()


@given(groups)
def test_each_entity_is_new_once_per_peer(group: Any) -> None:
    result = rewards_of(group, RewardConfig(), 0)
    different = [len(set().union(*(shown for shown, _ in peer))) for peer, _ in group]
    assert result.new_GS.sum(axis=1).tolist() == different
    assert result.peers_E.sum() == sum(different)


@given(groups, st.randoms())
def test_the_order_of_peers_does_not_matter(group: Any, draw: Any) -> None:
    order = list(range(len(group)))
    draw.shuffle(order)
    plain = rewards_of(group, RewardConfig(), 150).rewards_GS
    mixed = rewards_of([group[i] for i in order], RewardConfig(), 150).rewards_GS
    np.testing.assert_array_equal(mixed, plain[order])


def test_only_finder_earns_the_full_premium_and_a_crowd_almost_none() -> None:
    alone = [([({0}, 1)], 0.0)] + [([(set(), 1)], 0.0)] * 15
    together = [([({0}, 1)], 0.0)] * 16
    assert rewards_of(alone, RewardConfig(), 0).rewards_GS[0, 0] == pytest.approx(5 / NUM_GOLD)
    crowd = rewards_of(together, RewardConfig(), 0).rewards_GS[0, 0] * NUM_GOLD
    assert crowd == pytest.approx(1 + 4 * math.exp(-15))


def test_the_authors_cost_schedule() -> None:
    config = RewardConfig()
    assert [cost_at(step, config) for step in (0, 99, 100)] == [0.0, 0.0, 0.0]
    assert cost_at(150, config) == pytest.approx(0.005)
    assert cost_at(200, config) == cost_at(10_000, config) == 0.01
    assert cost_at(0, RewardConfig(cost_free_steps=0, cost_rampup_steps=0)) == 0.01


def test_answer_reward() -> None:
    config = RewardConfig(final_weight=2.0)
    assert answer_reward(0.25, config) == 0.5
    assert answer_reward(0.0, config) == 0.0
    assert answer_reward(None, config) == -1.0


def test_peer_frequency_counts_a_peer_once() -> None:
    assert peer_frequency([[{0}, {0, 1}], [{1}], []], 3).tolist() == [1, 2, 0]
    assert first_seen([{2, 1}, {1, 0}, {2}]) == [[1, 2], [0], []]


@pytest.mark.parametrize("f1", [math.nan, -0.1, 1.1, math.inf, "much"])
def test_an_impossible_f1_is_refused(f1: Any) -> None:
    with pytest.raises(DataError, match="f1"):
        answer_reward(f1, RewardConfig())


@pytest.mark.parametrize("step", [-1, math.nan, None])
def test_an_impossible_step_is_refused(step: Any) -> None:
    with pytest.raises(DataError, match="step"):
        cost_at(step, RewardConfig())


@pytest.mark.parametrize(
    ("found", "calls", "final", "num_gold", "says"),
    [
        ([[{0}]], [[1]], [math.nan], 1, "final reward"),
        ([[{0}]], [[1]], [math.inf], 1, "final reward"),
        ([[{0}]], [[1]], [], 1, "0 final rewards"),
        ([[{0}]], [[1, 1]], [0.0], 1, "same steps"),
        ([[{0}]], [[1], []], [0.0], 1, "same steps"),
        ([[{0}]], [[-1]], [0.0], 1, "negative"),
        ([[{1}]], [[1]], [0.0], 1, r"0\.\.0"),
        ([[{-1}]], [[1]], [0.0], 1, r"0\.\.0"),
        ([[set()]], [[1]], [0.0], 0, "at least 1"),
    ],
)
def test_bad_groups_are_named(found: Any, calls: Any, final: Any, num_gold: int, says: str) -> None:
    with pytest.raises(DataError, match=says):
        group_rewards(found, calls, final, num_gold, RewardConfig(), 0)


def test_no_peers_no_rewards() -> None:
    empty = group_rewards([], [], [], 3, RewardConfig(), 0)
    assert empty.rewards_GS.shape == (0, 0) and empty.peers_E.tolist() == [0, 0, 0]
