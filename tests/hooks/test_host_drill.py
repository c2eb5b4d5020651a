"""Fault drill on the embedded host: aborts at random moments and broken searches."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.drill import Continuing, Faults
from support.drill_checks import RAMP, check_credits, check_drill, check_samples, check_train_data
from support.engine import ScriptedEngine
from support.hosts import REPLIES, TOWNS, TownScript, make_host, write_prompts
from support.search import ScriptedSearch
from support.tokenizers import byte_tokenizer

ROLLOUTS, GROUPS = 25, 8  # 200 groups


@pytest.mark.parametrize("mask", [False, True])
def test_two_hundred_groups_survive(tmp_path: Path, mask: bool) -> None:
    faults = Faults()
    script = Continuing(TownScript(), REPLIES)
    with (
        ScriptedEngine(byte_tokenizer(), script) as engine,
        ScriptedSearch(TOWNS.__getitem__, faults.search) as search,
        make_host(
            engine,
            search.endpoint,
            write_prompts(tmp_path / "prompts.jsonl", 5),
            max_share=1.0,
            rollout_batch_size=GROUPS,
            over_sampling_batch_size=2 * GROUPS,
            n_samples_per_prompt=3,
            partial_rollout=True,
            mask_offpolicy_in_partial_rollout=mask,
            router_policy="consistent_hashing",
        ) as host,
    ):
        faults.attach(engine)
        host.args.spader["reward"] = RAMP
        done = []
        for number in range(ROLLOUTS):
            engine.weight_version = str(number)
            done.append(host.rollout(number))
    samples = [rollout.samples for rollout in done]
    assert sum(map(len, samples)) == ROLLOUTS * GROUPS * 3
    check_samples(samples, engine, mask)
    check_drill(samples, [rollout.metrics for rollout in done], faults)
    assert engine.aborts
    for number, rollout in enumerate(done):
        check_credits(rollout.samples, [number])
        (shard,) = rollout.train_data
        check_train_data(rollout.samples, shard)
    assert any(rollout.metrics["spader/mixed_weight_groups"] for rollout in done)
