"""Advantages under data and context parallelism, in real processes, against plain arithmetic."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
import pytest
import torch
from support.episodes import episode
from support.ranks import advantages_by_rank

from spader_slime import hooks, record
from spader_slime.algorithms.credit import assign_credit
from spader_slime.algorithms.zigzag import owned_rows
from spader_slime.config import SpaderConfig
from spader_slime.episode import End, Episode
from spader_slime.local.arguments import host_args
from spader_slime.local.sample import Sample
from spader_slime.local.train_data import convert_samples_to_train_data, split_by_dp

CP, DP = 2, 2
GOLD = [["Oslo"], ["Bergen"], ["Tromsø"], ["Bodø"]]


def peers() -> list[Episode]:
    """Long and short trajectories, one behind a long prompt, one lost, one of a single token."""
    made = [
        episode(["Oslo"], ["Bergen", "Bodø"], ["Tromsø"], answer=["Oslo", "Bergen"]),
        episode(["Oslo"], answer=["Oslo"]),
        episode(["Bodø"], answer=["Rome"]),
        episode(["Oslo"], ["Oslo"], answer=["Oslo", "Bodø"]),
        episode(["Bergen"], end=End.INFRASTRUCTURE),
        episode(answer=["Tromsø"]),
    ]
    made[1].prompt_ids = list(range(41))
    for name in ("response_ids", "loss_mask", "log_probs"):
        del getattr(made[5], name)[1:]
    made[5].turns[0] = type(made[5].turns[0])((0, 1), made[5].turns[0].kind)
    return made


def sample_of(made: Episode, index: int) -> Sample:
    sample = Sample(index=index, label=GOLD, tokens=made.prompt_ids + made.response_ids)
    sample.response_length = len(made.response_ids)
    sample.loss_mask, sample.rollout_log_probs = list(made.loss_mask), list(made.log_probs)
    record.close_episode(sample, made, evaluation=False)
    return sample


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    made = peers()
    found = [sample_of(one, index) for index, one in enumerate(made)]
    credits = assign_credit(made, GOLD, SpaderConfig(), 0)
    for sample, credit in zip(found, credits, strict=True):
        record.store_credit(sample, credit)
        sample.reward = credit.reward
    return found


@pytest.fixture(scope="module", params=["token", "step"])
def by_rank(
    samples: list[Sample], request: pytest.FixtureRequest
) -> dict[tuple[int, int], dict[str, Any]]:
    """With and without decision steps beside the advantages."""
    spader = {"loss": {"ratio": request.param}}
    args = host_args(sglang_router_port=1, spader=spader)
    shards = split_by_dp(convert_samples_to_train_data(args, samples), DP)
    return advantages_by_rank(shards, CP, spader)


def expected(sample: Sample) -> np.ndarray:
    """Token by token, in float64."""
    credit, spans = record.credit_of(sample), record.episode_of(sample).step_spans
    values = np.zeros(sample.response_length)
    for token in range(sample.response_length):
        for (start, end), advantage in zip(spans, credit.advantages_S, strict=True):
            if start <= token < end:
                values[token] = advantage
    return values


def test_the_ranks_of_a_sample_own_its_advantages_together(
    samples: list[Sample], by_rank: dict[tuple[int, int], dict[str, Any]]
) -> None:
    seen, empty = [], 0
    for dp in range(DP):
        parts = [by_rank[dp, cp] for cp in range(CP)]
        seen += parts[0]["partition"]
        for row, index in enumerate(parts[0]["partition"]):
            sample = samples[index]
            whole = np.full(sample.response_length, np.nan)
            for cp, part in enumerate(parts):
                values = part["advantages"][row].tolist()
                assert part["returns"][row].tolist() == values
                empty += not values
                for start, end in owned_rows(len(sample.tokens), sample.response_length, cp, CP):
                    whole[start:end] = values[: end - start]
                    del values[: end - start]
                assert values == []
            np.testing.assert_allclose(whole, expected(sample), atol=1e-6, rtol=0)
    assert sorted(seen) == list(range(len(samples)))
    assert empty > 0  # a rank without any token of a sample is part of this test


def test_rewards_are_scalars_again(
    samples: list[Sample], by_rank: dict[tuple[int, int], dict[str, Any]]
) -> None:
    for part in by_rank.values():
        assert part["rewards"] == [samples[i].reward for i in part["partition"]]


def test_one_process_without_a_grid_gives_the_same(samples: list[Sample]) -> None:
    args = host_args(sglang_router_port=1)
    (shard,) = split_by_dp(convert_samples_to_train_data(args, samples), 1)
    hooks.compute_advantages(Namespace(), shard)
    for sample, found in zip(samples, shard["advantages"], strict=True):
        assert found.dtype == torch.float32
        np.testing.assert_allclose(found.numpy(), expected(sample), atol=1e-6, rtol=0)
