"""A rollout outlives every fault of the search service, counts it, and stops past the limit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.engine import Call, ScriptedEngine
from support.hosts import TOWNS, make_host
from support.search import ScriptedSearch

from spader_slime import record
from spader_slime.algorithms.credit import assign_credit
from spader_slime.config import SpaderConfig
from spader_slime.errors import TooManyFailuresError
from spader_slime.local.host import Rollout
from spader_slime.local.sample import Status
from spader_slime.local.seam import EvalDataset

FAULTS = {
    "status": "status",
    "slow": "timeout",
    "garbage": "malformed",
    "shape": "malformed",
    "huge": "oversized",
}


def play(
    engine: ScriptedEngine, url: str, prompts: str, max_share: float, fault: str = "", **args: Any
) -> Rollout:
    search = {"timeout_s": 0.5 if fault == "slow" else 30}
    with make_host(engine, url, prompts, search=search, max_share=max_share, **args) as host:
        return host.rollout(0)


def check_losses(rollout: Rollout, lost: int, cause: str) -> None:
    """Lost episodes are counted by cause, masked, and left out of baseline and N(e)."""
    metrics = rollout.metrics
    assert metrics["spader/failed/infrastructure"] == metrics[f"spader/failed/{cause}"] == lost
    assert metrics["spader/failed/share"] == lost / len(rollout.samples)
    gone = [sample for sample in rollout.samples if sample.status is Status.FAILED]
    assert len(gone) == lost
    (shard,) = rollout.train_data
    for place, sample in enumerate(rollout.samples):
        assert isinstance(sample.reward, float)
        length = shard["response_lengths"][place]
        assert len(shard["loss_masks"][place]) == len(shard["rewards"][place]) == length > 0
        assert len(shard["rollout_log_probs"][place]) == length
        if sample in gone:
            assert sample.remove_sample and sample.reward == 0.0
            assert not shard["loss_masks"][place].any() and not shard["rewards"][place].any()
            assert shard["rollout_mask_sums"][place] == 0
    check_peers(rollout)


def check_peers(rollout: Rollout) -> None:
    """Credits of those that are left equal those of a group of them alone."""
    for group in {sample.group_index for sample in rollout.samples}:
        left = [s for s in rollout.samples if s.group_index == group and not s.remove_sample]
        if left:
            alone = [record.episode_of(sample) for sample in left]
            expected = assign_credit(alone, left[0].label, SpaderConfig(), 0)
            assert [record.credit_of(sample) for sample in left] == expected


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_answer_costs_its_episode_only(
    engine: ScriptedEngine, prompts: str, fault: str
) -> None:
    chosen = {2, 7}
    with ScriptedSearch(TOWNS.__getitem__, lambda n: fault if n in chosen else "") as search:
        rollout = play(engine, search.endpoint, prompts, max_share=0.5, fault=fault)
    assert rollout.metrics[f"spader/search_errors/{FAULTS[fault]}"] == 2
    check_losses(rollout, 2, f"search_{FAULTS[fault]}")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_service_that_always_fails_stops_the_run_in_one_line(
    engine: ScriptedEngine, prompts: str, fault: str
) -> None:
    with (
        ScriptedSearch(TOWNS.__getitem__, lambda n: fault) as search,
        pytest.raises(TooManyFailuresError) as caught,
    ):
        play(engine, search.endpoint, prompts, max_share=0.5, fault=fault)
    line = str(caught.value)
    assert line.startswith("8 of 8 episodes failed (100%, failures.max_share is 50%): ")
    assert FAULTS[fault] in line and "\n" not in line


def test_a_service_that_is_down_is_survived_up_to_the_limit(
    engine: ScriptedEngine, prompts: str
) -> None:
    with ScriptedSearch(TOWNS.__getitem__) as search:
        address = search.endpoint
    rollout = play(engine, address, prompts, max_share=1.0)
    check_losses(rollout, 8, "search_connection")
    with pytest.raises(TooManyFailuresError, match=r"8 of 8 .* can't be reached"):
        play(engine, address, prompts, max_share=0.9)


def test_the_filter_leaves_lost_groups_to_the_limit(engine: ScriptedEngine, prompts: str) -> None:
    """Otherwise the host would look for better groups for ever."""
    path = "spader_slime.hooks.keep_informative_group"
    with (
        ScriptedSearch(TOWNS.__getitem__, lambda n: "status") as search,
        pytest.raises(TooManyFailuresError),
    ):
        play(engine, search.endpoint, prompts, 0.5, dynamic_sampling_filter_path=path)


def test_an_engine_that_refuses_is_counted_as_engine(engine: ScriptedEngine, prompts: str) -> None:
    refused: list[Call] = []

    def refuse(call: Call) -> bool:
        refused.append(call)
        return len(refused) in (1, 5)

    engine.refuse = refuse
    try:
        with ScriptedSearch(TOWNS.__getitem__) as search:
            rollout = play(engine, search.endpoint, prompts, max_share=0.5)
    finally:
        engine.refuse = lambda call: False
    check_losses(rollout, 2, "engine")


def test_a_lost_evaluation_scores_zero_and_counts(engine: ScriptedEngine, prompts: str) -> None:
    with (
        ScriptedSearch(TOWNS.__getitem__, lambda n: "status" if n == 1 else "") as search,
        make_host(engine, search.endpoint, prompts, max_share=0.5) as host,
    ):
        host.args.eval_datasets = [EvalDataset("dev", prompts)]
        output = host.evaluate(0)
    assert sorted(output.data["dev"]["rewards"])[0] == 0.0
    assert (output.metrics or {})["eval/dev/spader/failed/search_status"] == 1
    assert not torch.tensor(output.data["dev"]["rewards"]).isnan().any()
