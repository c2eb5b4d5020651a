"""Diversity-aware exploration reward of decision steps (SPADER, section 2, "Step rewards")."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spader_slime.algorithms.checks import finite_number
from spader_slime.config import RewardConfig
from spader_slime.errors import DataError

Found = Sequence[Sequence[Collection[int]]]


@dataclass(frozen=True)
class GroupReward:
    """Rewards of one group of peers, padded to its longest trajectory.

    Attributes:
        rewards_GS: float64, the whole reward of each decision step.
        num_steps_G: decision steps of each peer.
        novelty_GS: the part of `rewards_GS` that the novelty premium (beta) gave.
        new_GS: gold entities shown for the first time in the trajectory.
        peers_E: N(e), how many peers saw each gold entity.
        cost: c(step), the price of one call at this training step.
    """

    rewards_GS: NDArray[np.float64]
    num_steps_G: NDArray[np.int64]
    novelty_GS: NDArray[np.float64]
    new_GS: NDArray[np.int64]
    peers_E: NDArray[np.int64]
    cost: float


def cost_at(step: int, config: RewardConfig) -> float:
    """c(step): 0 for the first `cost_free_steps` training steps, then up in a line over
    `cost_rampup_steps` to `cost`, then constant.

    Raises:
        DataError: `step` is negative or no number.
    """
    past = finite_number("step", step, 0.0) - config.cost_free_steps
    if past < 0:
        return 0.0
    share = past / config.cost_rampup_steps if config.cost_rampup_steps else 1.0
    return config.cost * min(1.0, share)


def answer_reward(f1: float | None, config: RewardConfig) -> float:
    """Reward of the last step: `final_weight` * F1, or `invalid_format` for None (no valid answer).

    Raises:
        DataError: F1 is outside 0..1 or NaN.
    """
    if f1 is None:
        return config.invalid_format
    return config.final_weight * finite_number("f1", f1, 0.0, 1.0)


def peer_frequency(found_GS: Found, num_gold: int) -> NDArray[np.int64]:
    """N(e) for each of `num_gold` entities: the peers that saw e in at least one step."""
    peers_E = np.zeros(num_gold, dtype=np.int64)
    for steps in found_GS:
        peers_E[list(set().union(*steps))] += 1
    return peers_E


def group_rewards(
    found_GS: Found,
    calls_GS: Sequence[Sequence[int]],
    final_G: Sequence[float],
    num_gold: int,
    config: RewardConfig,
    step: int,
) -> GroupReward:
    """Rewards of one group.

    ``r_t = (1/|GT|) [sum over e in E_new (alpha + beta exp(-lambda (N(e)-1))) - c(step) calls_t]``
    and `final_G` on top of each trajectory's last step. A trajectory without steps is a peer
    that saw nothing; there is no step to take its final reward.

    Args:
        found_GS: gold entities shown in each decision step, new or not.
        calls_GS: queries issued plus malformed calls in each step (0 in an answer step).
        final_G: what `answer_reward` gave for each trajectory.
        num_gold: |GT|, >= 1.
        step: training step (rollout id), for the cost schedule.

    Raises:
        DataError: counts that don't agree, an entity outside 0..num_gold-1, negative calls,
            a final reward that is NaN or infinite.
    """
    _check_group(found_GS, calls_GS, final_G, num_gold)
    cost, peers_E = cost_at(step, config), peer_frequency(found_GS, num_gold)
    premium_E = config.beta * np.exp(-config.decay * np.maximum(peers_E - 1, 0))
    num_steps_G = np.array([len(steps) for steps in found_GS], dtype=np.int64)
    shape = (len(found_GS), int(num_steps_G.max(initial=0)))
    rewards_GS, novelty_GS = np.zeros(shape), np.zeros(shape)
    new_GS = np.zeros(shape, dtype=np.int64)
    for peer, (steps, calls) in enumerate(zip(found_GS, calls_GS, strict=True)):
        for place, new in enumerate(first_seen(steps)):
            new_GS[peer, place] = len(new)
            novelty_GS[peer, place] = premium_E[new].sum() / num_gold
            rewards_GS[peer, place] = (config.alpha * len(new) - cost * calls[place]) / num_gold
        if steps:
            rewards_GS[peer, len(steps) - 1] += final_G[peer]
    return GroupReward(rewards_GS + novelty_GS, num_steps_G, novelty_GS, new_GS, peers_E, cost)


def first_seen(found_S: Sequence[Collection[int]]) -> list[list[int]]:
    """E_new of each step: what it shows for the first time in this trajectory, sorted."""
    seen: set[int] = set()
    new_S = []
    for found in found_S:
        new_S.append(sorted(set(found) - seen))
        seen.update(found)
    return new_S


def _check_group(
    found_GS: Found, calls_GS: Sequence[Sequence[int]], final_G: Sequence[float], num_gold: int
) -> None:
    if num_gold < 1:
        raise DataError(f"num_gold must be at least 1, not {num_gold}")
    if [len(steps) for steps in found_GS] != [len(calls) for calls in calls_GS]:
        raise DataError("found_GS and calls_GS must have the same steps")
    if len(final_G) != len(found_GS):
        raise DataError(f"{len(found_GS)} trajectories but {len(final_G)} final rewards")
    for final in final_G:
        finite_number("final reward", final)
    if any(calls < 0 for row in calls_GS for calls in row):
        raise DataError("calls can't be negative")
    if any(not 0 <= e < num_gold for steps in found_GS for found in steps for e in found):
        raise DataError(f"found entities must lie in 0..{num_gold - 1}")
