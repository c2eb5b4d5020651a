"""Advantages of decision steps among peers (SPADER, section 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spader_slime.algorithms.checks import finite_number, step_table
from spader_slime.algorithms.spreading import spread_batch, spread_over_tokens

__all__ = ["spread_batch", "spread_over_tokens", "step_peer_advantage", "trajectory_advantage"]

Floats = NDArray[np.float64]


def step_peer_advantage(
    rewards_NS: ArrayLike,
    num_steps_N: ArrayLike,
    group_N: ArrayLike,
    gamma: float = 0.9,
    eps: float = 1e-6,
) -> tuple[Floats, Floats]:
    """Step-wise peer advantage, SPA (SPADER, section 2).

    ``G_t^i = sum_{k=t..L_i} gamma^(k-t) r_k^i`` and
    ``A_t^i = M_t^i (G_t^i - mu_t) / sqrt(var_t + eps)``: mean and population variance run over
    *all* peers of the group, a peer that has stopped counts with a return of 0. A trajectory
    without any step is a peer that stopped at once. A group of one has advantage 0.

    Args:
        rewards_NS: rewards of N trajectories, padded to S decision steps; what stands in the
            padding is never read.
        num_steps_N: decision steps L of each trajectory, 0..S.
        group_N: any integers; equal ones are peers. Groups may be mixed in any order.
        gamma: discount per decision step, 0..1.
        eps: added to the variance, >= 0 (where variance + eps is 0 the advantage is 0).

    Returns:
        ``(advantages_NS, returns_NS)``, float64, zero past each trajectory's end.

    Raises:
        DataError: shapes that don't agree, a step count outside 0..S, rewards that are NaN or
            infinite, gamma or eps out of range.
    """
    table = step_table(rewards_NS, num_steps_N, group_N)
    gamma, eps = finite_number("gamma", gamma, 0.0, 1.0), finite_number("eps", eps, 0.0)
    returns_NS = _returns_to_go(table.rewards_NS, gamma)
    return _standardize(returns_NS, table.group_N, eps) * table.mask_NS, returns_NS


def trajectory_advantage(
    rewards_NS: ArrayLike,
    num_steps_N: ArrayLike,
    group_N: ArrayLike,
    gamma: float = 0.9,
    eps: float = 1e-6,
) -> tuple[Floats, Floats]:
    """GRPO's advantage: one value per trajectory, repeated over its decision steps.

    ``R^i = sum_t r_t^i`` (plain and undiscounted), ``A^i = (R^i - mean R) / sqrt(var R + eps)``
    over the peers. The signature is that of `step_peer_advantage`, so that either can stand in
    for the other; `gamma` is checked and otherwise without effect.

    Returns:
        ``(advantages_NS, returns_NS)``, float64; `returns_NS` repeats R over the steps.

    Raises:
        DataError: as `step_peer_advantage`.
    """
    table = step_table(rewards_NS, num_steps_N, group_N)
    finite_number("gamma", gamma, 0.0, 1.0)
    total_N1 = table.rewards_NS.sum(axis=1, keepdims=True)
    advantage_N1 = _standardize(total_N1, table.group_N, finite_number("eps", eps, 0.0))
    return advantage_N1 * table.mask_NS, total_N1 * table.mask_NS


def _returns_to_go(rewards_NS: Floats, gamma: float) -> Floats:
    returns_NS = rewards_NS.copy()
    for step in range(rewards_NS.shape[1] - 2, -1, -1):
        returns_NS[:, step] += gamma * returns_NS[:, step + 1]
    return returns_NS


def _standardize(values_NS: Floats, group_N: NDArray[np.int64], eps: float) -> Floats:
    """(value - mean) / sqrt(population variance + eps), by group and column."""
    if len(group_N) == 0:
        return values_NS.copy()
    order = np.argsort(group_N, kind="stable")
    starts = np.flatnonzero(np.diff(group_N[order], prepend=group_N[order[0]] - 1))
    sizes = np.diff(starts, append=len(group_N))
    member = np.empty_like(order)
    member[order] = np.repeat(np.arange(len(starts)), sizes)

    mean_PS = np.add.reduceat(values_NS[order], starts, axis=0) / sizes[:, None]
    centered_NS = values_NS - mean_PS[member]
    square_PS = np.add.reduceat(np.square(centered_NS[order]), starts, axis=0)
    scale_PS = np.sqrt(square_PS / sizes[:, None] + eps)
    scale_PS[scale_PS == 0.0] = 1.0
    return centered_NS / scale_PS[member]
