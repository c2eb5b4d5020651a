"""Means over decision steps, and the embedded loss with step options, against float64 loops."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.policies import make_rollout, with_steps

from spader_slime.algorithms.zigzag import slice_response
from spader_slime.errors import DataError
from spader_slime.megatron.batching import micro_batches, read_trajectories
from spader_slime.megatron.decision_steps import (
    OUTSIDE,
    SampleSteps,
    attach_steps,
    join,
    sample_steps,
    step_mean,
    steps_of,
)
from spader_slime.megatron.learner import Learner
from spader_slime.megatron.objectives import clipped_policy_gradient
from spader_slime.megatron.settings import LearnerSettings

CPU = torch.device("cpu")
# Per token: number of the decision step (0: observation), loss mask, value.
tokens = st.tuples(st.integers(0, 4), st.integers(0, 1), st.floats(-3, 3))
samples = st.lists(st.lists(tokens, min_size=1, max_size=15), min_size=1, max_size=4)


@settings(deadline=None)
@given(samples, st.integers(1, 3))
def test_means_and_weights(rows: list[list[tuple[int, int, float]]], size: int) -> None:
    """Also when the tokens are dealt out to context-parallel ranks, whose sums are added here."""
    for rank in range(size):
        parts, values, expected, shares = [], [], [], []
        for row in rows:
            columns = zip(*row, strict=True)
            numbers, mask, own = (torch.tensor(c, dtype=torch.float64) for c in columns)
            steps = sample_steps(numbers, mask)
            cut = (len(row) + 3, len(row), rank, size)
            mine = slice_response(torch.arange(len(row)), *cut).tolist()
            parts.append(SampleSteps(slice_response(steps.step_T, *cut), steps.counts_S, 0.5))
            values.append(slice_response(own, *cut))
            for t in mine:
                number, trained, _ = row[t]
                same = [u for u in mine if row[u][0] == number and row[u][1]]
                count = sum(a == number and bool(b) for a, b, _ in row)
                real = bool(number and trained)
                expected.append(sum(row[u][2] for u in same) / count if real else 0.0)
                shares.append(0.5 / count if real else 0.0)
        batch = join(parts)
        assert step_mean(torch.cat(values), batch, None).tolist() == pytest.approx(expected)
        assert batch.weights_N.tolist() == pytest.approx(shares)


def test_a_step_without_a_trained_token_is_none() -> None:
    steps = sample_steps(torch.tensor([1.0, 1.0, 0.0, 2.0, 3.0]), torch.tensor([0, 0, 0, 1, 1]))
    assert steps.step_T.tolist() == [OUTSIDE, OUTSIDE, OUTSIDE, 0, 1]
    assert steps.counts_S.tolist() == [1.0, 1.0]


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 5),
    st.integers(1, 300),
    st.sampled_from([("step", "token"), ("token", "step"), ("step", "step")]),
    st.sampled_from([None, 1.3]),
)
def test_the_embedded_loss(
    seed: int, count: int, budget: int, options: tuple[str, str], dual_clip: float | None
) -> None:
    """However the trajectories are put into micro-batches, one of them without a trained token."""
    data, source = (
        with_steps(make_rollout(seed, count), seed),
        torch.Generator().manual_seed(seed + 1),
    )
    new = [-5.4 + torch.randn(n, generator=source) * 0.4 for n in data["response_lengths"]]
    data["log_probs"] = data["rollout_log_probs"]
    asked = LearnerSettings(ratio=options[0], aggregate=options[1], dual_clip=dual_clip)
    decisions = sum(len(s.counts_S) for s in steps_of(data["returns"]))
    loss = clipped_policy_gradient(asked, data, count, decisions)
    batches = micro_batches(read_trajectories(data), budget, CPU)
    total = sum(float(loss(b, b.pick(new), b.pick(new))[0]) for b in batches)
    assert total == pytest.approx(slow_loss(data, new, asked), rel=1e-5, abs=1e-6)


def slow_loss(data: dict[str, Any], new: list[Any], asked: LearnerSettings) -> float:
    steps = []  # of trajectory i: trained tokens
    for i, rewards in enumerate(data["rewards"]):
        numbers, mask = rewards[:, 1].tolist(), data["loss_masks"][i].tolist()
        for number in sorted(set(numbers)):
            trained = [t for t in range(len(mask)) if mask[t] and numbers[t] == number]
            steps += [(i, trained)] if trained else []
    loss = 0.0
    for i, trained in steps:
        gaps = {t: float(new[i][t]) - float(data["rollout_log_probs"][i][t]) for t in trained}
        mean = sum(gaps.values()) / len(trained)
        for t in trained:
            ratio = math.exp(mean if asked.ratio == "step" else gaps[t])
            advantage = float(data["advantages"][i][t])
            clipped = min(max(ratio, 1 - asked.clip_low), 1 + asked.clip_high)
            objective = min(ratio * advantage, clipped * advantage)
            if asked.dual_clip is not None and advantage < 0:
                objective = max(objective, asked.dual_clip * advantage)
            share = 1 / len(trained) / len(steps)
            if asked.aggregate == "token":
                share = 1 / int(data["loss_masks"][i].sum()) / len(new)
            loss -= share * objective
    return loss


def test_steps_of_one_token_have_the_ratio_of_the_token() -> None:
    """And then both ratios are the same loss."""
    data = make_rollout(2, trajectories=4)
    data["returns"] = [a.clone() for a in data["advantages"]]
    data["rewards"] = [
        torch.stack([a, torch.arange(1.0, len(a) + 1)], 1) for a in data["advantages"]
    ]
    attach_steps(data, 0, 1)
    data["log_probs"] = data["rollout_log_probs"]
    new = [values + 0.1 for values in data["rollout_log_probs"]]
    (batch,) = micro_batches(read_trajectories(data), 10_000, CPU)
    losses = [
        clipped_policy_gradient(LearnerSettings(ratio=ratio), data, 4)(
            batch, batch.pick(new), batch.pick(new)
        )[0]
        for ratio in ("token", "step")
    ]
    assert torch.equal(*losses)


def test_a_learner_takes_step_options(hf: Any) -> None:
    """Two minibatches, each with steps of its own; without steps it says what is missing."""
    learner = Learner(LearnerSettings(ratio="step", aggregate="step", minibatches=2), hf)
    try:
        report = learner.train(with_steps(make_rollout(4, 6), 4))
        assert report["steps"] == 2 and math.isfinite(report["loss"]) and report["grad_norm"] > 0
        with pytest.raises(DataError, match="decision_steps"):
            learner.train(make_rollout(4))
    finally:
        learner.close()
