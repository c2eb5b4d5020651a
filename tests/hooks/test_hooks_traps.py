"""Small facts about slime that a plugin trips over (docs/slime-compatibility.md lists them all)."""

from __future__ import annotations

import random
from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.engine import ScriptedEngine
from support.hosts import TOWNS, make_host
from support.search import ScriptedSearch

from spader_slime import adapter, hooks, record
from spader_slime.errors import ConfigError
from spader_slime.local.host import Rollout


def play(engine: ScriptedEngine, prompts: str, **arguments: Any) -> tuple[Namespace, Rollout]:
    with (
        ScriptedSearch(TOWNS.__getitem__) as search,
        make_host(engine, search.endpoint, prompts, **arguments) as host,
    ):
        return host.args, host.rollout(0)


def test_rewards_of_a_sample_don_t_depend_on_who_stands_beside_it(
    engine: ScriptedEngine, prompts: str
) -> None:
    """slime would take a batch of an odd size for one group."""
    args, rollout = play(engine, prompts)
    raw, rewards = hooks.post_process_rewards(args, rollout.samples)
    places = list(range(len(rollout.samples)))
    random.Random(0).shuffle(places)
    some = places[:5]
    raw_of_some, of_some = hooks.post_process_rewards(args, [rollout.samples[i] for i in some])
    assert raw_of_some == [raw[i] for i in some]
    assert all(torch.equal(a, rewards[i]) for a, i in zip(of_some, some, strict=True))
    assert any(values.any() for values in rewards)


def test_a_group_of_one_trains_on_nothing(engine: ScriptedEngine, prompts: str) -> None:
    """Without peers there is no baseline, and nothing breaks."""
    args, rollout = play(engine, prompts, n_samples_per_prompt=1, rollout_batch_size=3)
    _, rewards = hooks.post_process_rewards(args, rollout.samples)
    assert len(rewards) == 3 and not any(values.any() for values in rewards)
    assert all(record.credit_of(sample).included for sample in rollout.samples)
    assert {sample.group_index for sample in rollout.samples} == {0, 1, 2}


def test_the_filter_drops_a_group_of_one(engine: ScriptedEngine, prompts: str) -> None:
    args, rollout = play(engine, prompts, n_samples_per_prompt=1, rollout_batch_size=1)
    verdict = hooks.keep_informative_group(args, rollout.samples)
    assert not verdict.keep and verdict.reason == "equal"


@pytest.mark.parametrize("policy", [None, "cache_aware", "consistent_hashing"])
@pytest.mark.parametrize("session", [None, "abc"])
def test_turns_go_to_one_engine_where_the_router_hashes(
    policy: str | None, session: str | None
) -> None:
    """An evaluation has no session."""
    args = Namespace(router_policy=policy)
    headers = adapter.engine_headers(args, SimpleNamespace(session_id=session))
    hashed = policy == "consistent_hashing" and session
    assert headers == ({"X-SMG-Routing-Key": session} if hashed else None)


def test_routing_is_asked_for_where_it_is_replayed() -> None:
    asked = {"return_routed_experts": True}
    assert adapter.engine_request(Namespace(use_rollout_routing_replay=True)) == asked
    assert adapter.engine_request(Namespace(use_rollout_routing_replay=False)) == {}


def test_without_our_rollout_function_the_training_step_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adapter, "_current_rollout", {})
    args = Namespace(spader_state=object(), rollout_function_path="other.rollout")
    with pytest.raises(ConfigError, match=r"rollout_function_path.*other\.rollout"):
        adapter.training_step(args)
    adapter.remember_rollout(7)
    assert adapter.training_step(args) == 7


def test_evaluation_is_told_that_there_are_no_groups() -> None:
    """slime refuses to evaluate under --group-rm; training must keep it."""
    args = Namespace(group_rm=True, spader={"agent": {}})
    copied = adapter.without_group_reward(args)
    assert args.group_rm and not copied.group_rm
    assert copied.spader is args.spader  # read and checked once
