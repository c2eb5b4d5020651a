"""From prompts to per-token advantages: real search service, scripted engine, every hook."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from support.alignment import calls_by_session, check_alignment
from support.engine import ScriptedEngine
from support.hosts import GOLD, TownScript, make_host, write_prompts
from support.tokenizers import byte_tokenizer

from spader_slime import hooks, record
from spader_slime.algorithms.credit import assign_credit
from spader_slime.config import SpaderConfig
from spader_slime.local.arguments import trainer_args
from spader_slime.local.host import Rollout, RolloutHost
from spader_slime.local.sample import Sample, Status
from spader_slime.local.seam import EvalDataset
from spader_slime.retrieval.index import build_index
from spader_slime.retrieval.launch import SearchProcess
from spader_slime.retrieval.passages import Passage

PASSAGES = [
    Passage("Oslo", "Capital of Norway, near Drammen."),
    Passage("Bergen", "City in Vestland, Norway."),
    Passage("Trondheim", "City in Trøndelag."),
    Passage("Lima", "Capital of Peru."),
]


@pytest.fixture(scope="module")
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(byte_tokenizer(), TownScript(), weight_version="7") as running:
        yield running


@pytest.fixture(scope="module")
def host(engine: ScriptedEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolloutHost]:
    folder = tmp_path_factory.mktemp("chain")
    build_index(PASSAGES, folder / "index")
    prompts = write_prompts(folder / "prompts.jsonl", metadata={"tiers": ["head", "tail", "tail"]})
    with SearchProcess(folder / "index") as search:
        more = {
            "save_debug_rollout_data": str(folder / "{rollout_id}.pt"),
            "router_policy": "consistent_hashing",
        }
        with make_host(engine, search.url, prompts, **more) as made:
            yield made


@pytest.fixture(scope="module")
def rollout(host: RolloutHost) -> Rollout:
    return host.rollout(0)


def test_every_array_holds_what_the_engine_sent(rollout: Rollout, engine: ScriptedEngine) -> None:
    calls = calls_by_session(engine)
    for sample in rollout.samples:
        check_alignment(sample, calls)
        episode = record.episode_of(sample)
        assert sample.loss_mask == episode.loss_mask and not sample.remove_sample
        assert sample.response == engine.tokenizer.decode(episode.response_ids)


def test_the_trajectories_are_those_of_the_script(rollout: Rollout) -> None:
    for sample in rollout.samples:
        episode = record.episode_of(sample)
        assert sample.status is Status.COMPLETED and sample.weight_versions[0] == "7"
        shown = {d.title for turn in episode.turns for d in turn.documents}
        assert shown == (
            {"Oslo", "Lima"} if len(episode.turns) == 2 else {"Oslo", "Lima", "Bergen"}
        )
    steps = [len(record.episode_of(sample).turns) for sample in rollout.samples]
    assert sorted(steps) == [2] * 4 + [3] * 4


def test_advantages_of_the_method_reach_the_tokens(rollout: Rollout, host: RolloutHost) -> None:
    (shard,) = rollout.train_data
    data = dict(shard)
    hooks.compute_advantages(trainer_args(host.args), data)
    assert data["rewards"] == shard["raw_reward"] == [s.reward for s in rollout.samples]
    groups: dict[Any, list[Sample]] = defaultdict(list)
    for sample in rollout.samples:
        groups[sample.group_index].append(sample)
    place = {sample.index: i for i, sample in enumerate(rollout.samples)}
    config = SpaderConfig()
    for group in groups.values():
        episodes = [record.episode_of(sample) for sample in group]
        for sample, episode, credit in zip(
            group, episodes, assign_credit(episodes, GOLD, config, 0), strict=True
        ):
            expected = torch.zeros(sample.response_length)
            for (start, end), value in zip(episode.step_spans, credit.advantages_S, strict=True):
                expected[start:end] = value
            found = data["advantages"][place[sample.index]]
            assert found.dtype == torch.float32 and torch.equal(found, expected)
            assert torch.equal(data["returns"][place[sample.index]], expected)
    assert any(values.abs().sum() > 0 for values in data["advantages"])


def test_the_loss_weighs_trajectories_by_their_sampled_tokens(rollout: Rollout) -> None:
    (shard,) = rollout.train_data
    assert shard["rollout_mask_sums"].tolist() == [sum(s.loss_mask or []) for s in rollout.samples]
    assert [len(tokens) for tokens in shard["tokens"]] == shard["total_lengths"]


def test_ranks_share_the_samples(host: RolloutHost) -> None:
    first, second = host.rollout(1, dp_size=2).train_data
    assert sorted(first["partition"] + second["partition"]) == list(range(8))
    for shard in (first, second):
        hooks.compute_advantages(trainer_args(host.args), shard)
        assert shard["rewards"] == [shard["raw_reward"][i] for i in shard["partition"]]
        assert [len(a) for a in shard["advantages"]] == shard["response_lengths"]


def test_a_dump_loads_and_gives_the_same_advantages(rollout: Rollout, host: RolloutHost) -> None:
    path = host.args.save_debug_rollout_data.format(rollout_id=0)
    stored = torch.load(path, weights_only=False)["samples"]
    again = [Sample.from_dict(sample) for sample in stored]
    raw, rewards = hooks.post_process_rewards(host.args, again)
    (shard,) = rollout.train_data
    assert raw == shard["raw_reward"]
    assert all(map(torch.equal, rewards, shard["rewards"]))


def test_metrics_of_training_and_evaluation(rollout: Rollout, host: RolloutHost) -> None:
    assert rollout.metrics["spader/recall"] == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert rollout.metrics["spader/turns"] == 2.5
    long = [s.group_index for s in rollout.samples if len(record.episode_of(s).turns) == 3]
    live = sum(long.count(group) for group in long) / len(long)  # which group they fall to varies
    assert rollout.metrics["spader/live_peers/step_3"] == live
    path = host.args.prompt_data
    host.args.eval_datasets = [
        EvalDataset("dev", path, n_samples_per_eval_prompt=2),
        EvalDataset("few", f"{path}@[0:1]"),
    ]
    output = host.evaluate(3)
    assert set(output.data) == {"dev", "few"} and len(output.data["dev"]["samples"]) == 6
    found = output.metrics or {}
    for name in ("f1", "recall", "precision", "seen_share", "union_share", "searches", "valid"):
        assert 0 < found[f"eval/dev/spader/{name}"] <= 2
    assert found["eval/dev/spader/recall_head"] == 1.0
    assert 0 < found["eval/dev/spader/recall_tail"] < 1 / 2
    tail = (3 * found["eval/dev/spader/recall"] - 1) / 2  # Oslo is the head and always found
    assert found["eval/dev/spader/recall_tail"] == pytest.approx(tail)
    assert found["eval/dev/spader/group_size"] == 2 and found["eval/few/spader/episodes"] == 1
    assert host.args.group_rm  # evaluated with a copy of the arguments
