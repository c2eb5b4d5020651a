"""Losses against slow loops in float64, written from the formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.policies import make_rollout

from spader_slime.megatron.batching import micro_batches, read_trajectories
from spader_slime.megatron.losses import (
    LossOptions,
    LossTokens,
    clipped_surrogate,
    k3_kl,
    policy_loss,
    token_weights,
)
from spader_slime.megatron.objectives import clipped_policy_gradient, likelihood
from spader_slime.megatron.settings import LearnerSettings

CPU = torch.device("cpu")
numbers = st.floats(-3, 3).map(lambda x: round(x, 3))
options = st.builds(
    LossOptions,
    clip_low=st.sampled_from([0.0, 0.1, 0.2]),
    clip_high=st.sampled_from([0.0, 0.2, 0.28]),
    dual_clip=st.sampled_from([None, 1.5, 3.0]),
    kl_coef=st.sampled_from([0.0, 0.3]),
    entropy_coef=st.sampled_from([0.0, 0.2]),
)


def slow_token(new: float, old: float, advantage: float, asked: LossOptions) -> float:
    ratio = math.exp(new - old)
    clipped = min(max(ratio, 1 - asked.clip_low), 1 + asked.clip_high)
    objective = min(ratio * advantage, clipped * advantage)
    if asked.dual_clip is not None and advantage < 0:
        objective = max(objective, asked.dual_clip * advantage)
    return -objective


@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=12), options)
def test_the_surrogate_is_ppos(rows: list[tuple[float, float, float]], asked: LossOptions) -> None:
    new, old, advantages = (torch.tensor(c, dtype=torch.float64) for c in zip(*rows, strict=True))
    loss, clipped = clipped_surrogate(new - old, advantages, asked)
    for row, value, flag in zip(rows, loss.tolist(), clipped.tolist(), strict=True):
        assert value == pytest.approx(slow_token(*row, asked), abs=1e-9)
        ratio, advantage = math.exp(row[0] - row[1]), row[2]
        outside = ratio > 1 + asked.clip_high if advantage > 0 else ratio < 1 - asked.clip_low
        if abs(advantage) > 1e-9 and abs(ratio - 1) > 1e-9:
            assert flag == outside


def test_clipping_stops_the_gradient_on_one_side_only() -> None:
    asked = LossOptions(clip_low=0.2, clip_high=0.28, dual_clip=3.0)
    #         up, too far   up, held back   down, too far   down, held back   ratio beyond dual clip
    log_ratio = torch.tensor([0.5, -0.5, -0.5, 0.5, 1.5], requires_grad=True)
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0, -1.0])
    clipped_surrogate(log_ratio, advantages, asked)[0].sum().backward()
    assert log_ratio.grad is not None
    assert [bool(g) for g in log_ratio.grad] == [False, True, False, True, False]


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12))
def test_k3(pairs: list[tuple[float, float]]) -> None:
    new, ref = (torch.tensor(c, dtype=torch.float64) for c in zip(*pairs, strict=True))
    values = k3_kl(new, ref)
    expected = [math.exp(r - n) - 1 - (r - n) for n, r in pairs]
    assert values.tolist() == pytest.approx(expected, abs=1e-9)
    assert bool((values >= 0).all())


def test_k3_is_unbiased() -> None:
    policy, reference = (torch.randn(6, dtype=torch.float64).softmax(0) for _ in range(2))
    exact = (policy * (policy / reference).log()).sum()
    assert (policy * k3_kl(policy.log(), reference.log())).sum() == pytest.approx(float(exact))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 400), options)
def test_the_mean_of_token_means(seed: int, count: int, budget: int, asked: LossOptions) -> None:
    """However the trajectories are put into micro-batches, with a trajectory that has no token."""
    data = make_rollout(seed, trajectories=count)
    source = torch.Generator().manual_seed(seed)
    new = [-5 + torch.randn(n, generator=source).double() * 0.4 for n in data["response_lengths"]]
    entropy = [torch.rand(n, generator=source).double() for n in data["response_lengths"]]
    data["log_probs"] = data["rollout_log_probs"]
    learner = LearnerSettings(**vars(asked))
    loss = clipped_policy_gradient(learner, data, count)
    total, kl = 0.0, 0.0
    for batch in micro_batches(read_trajectories(data), budget, CPU):
        value, report = loss(batch, batch.pick(new), batch.pick(entropy))
        total, kl = total + float(value), kl + float(report.get("kl", 0.0))
    expected, expected_kl = slow_loss(data, new, entropy, asked)
    assert total == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert kl == pytest.approx(expected_kl if asked.kl_coef else 0.0, rel=1e-4, abs=1e-5)


def slow_loss(
    data: dict[str, Any], new: list[Any], entropy: list[Any], asked: LossOptions
) -> tuple[float, float]:
    loss = penalty = 0.0
    for i, mask in enumerate(data["loss_masks"]):
        acted = [t for t in range(len(mask)) if mask[t]]
        for t in acted:
            old, ref = float(data["rollout_log_probs"][i][t]), float(data["ref_log_probs"][i][t])
            now, share = float(new[i][t]), 1 / len(acted) / len(new)
            kl = math.exp(ref - now) - 1 - (ref - now)
            penalty += share * kl
            token = slow_token(now, old, float(data["advantages"][i][t]), asked)
            token += asked.kl_coef * kl - asked.entropy_coef * float(entropy[i][t])
            loss += share * token
    return loss, penalty


def test_given_denominators_are_used() -> None:
    """Siblings of one rollout share theirs: slime's `rollout_mask_sums`."""
    data = make_rollout(3, trajectories=2)
    data["rollout_mask_sums"] = torch.tensor([50.0, 80.0])
    (batch,) = micro_batches(read_trajectories(data), 10_000, CPU)
    counts = {t.index: t.count for t in batch.trajectories}
    assert counts == {0: 50.0, 1: 80.0}
    weights = token_weights(batch.counts(), 2).split(batch.sizes().tolist())
    for trajectory, own in zip(batch.trajectories, weights, strict=True):
        assert torch.allclose(own, torch.tensor(0.5 / counts[trajectory.index]))


@pytest.mark.parametrize("per_trajectory", [False, True])
def test_likelihood(per_trajectory: bool) -> None:
    data = make_rollout(9, trajectories=5)
    source = torch.Generator().manual_seed(1)
    scores = [-torch.rand(n, generator=source) for n in data["response_lengths"]]
    tokens, real = sum(int(m.sum()) for m in data["loss_masks"]), 4
    loss = likelihood(tokens, real if per_trajectory else None)
    total = sum(
        float(loss(batch, batch.pick(scores), batch.pick(scores))[0])
        for batch in micro_batches(read_trajectories(data), 60, CPU)
    )
    masked = [s[m.bool()] for s, m in zip(scores, data["loss_masks"], strict=True) if m.any()]
    means = torch.stack([part.mean() for part in masked])
    assert total == pytest.approx(
        float(-means.mean() if per_trajectory else -torch.cat(masked).mean()), rel=1e-5
    )


def test_reports_are_weighted_means() -> None:
    tokens = LossTokens(torch.ones(3), torch.zeros(3), torch.tensor([0.5, 0.25, 0.25]))
    log_probs = torch.tensor([1.0, 0.0, -1.0], requires_grad=True)
    loss, report = policy_loss(log_probs, torch.tensor([1.0, 2.0, 4.0]), tokens, LossOptions())
    assert report["entropy"] == 2.0 and report["clip_fraction"] == 0.5
    assert report["approx_kl"] == -0.25 and "kl" not in report
    assert loss.requires_grad and not any(value.requires_grad for value in report.values())
