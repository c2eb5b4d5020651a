"""The embedded rollout loop alone, with small hooks of its own."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from typing import Any

import pytest

from spader_slime.errors import ConfigError
from spader_slime.local.arguments import host_args, trainer_args
from spader_slime.local.data_source import DataSource
from spader_slime.local.rollout import Collector
from spader_slime.local.sample import Sample, Status
from spader_slime.local.seam import DynamicFilterOutput, RolloutFnTrainOutput, load_function
from spader_slime.local.state import HostState

HERE = __name__


async def quick(args: Namespace, sample: Sample, params: dict[str, Any]) -> Sample:
    """Two tokens at once; prompts that say "wait" hang until the abort."""
    if not sample.tokens:
        sample.tokens = [1]
    meta = {"finish_reason": {"type": "stop"}}
    sample.append_response_tokens(tokens=[2], log_probs=[-1.0], meta_info=meta, text="a")
    while "wait" in str(sample.prompt) and sample.metadata.get("start_rollout_id") != 0:
        if args.spader_state.aborted:
            sample.status = Status.ABORTED
            return sample
        await asyncio.sleep(0.001)
    sample.append_response_tokens(tokens=[3], log_probs=[-1.0], meta_info=meta, text="b")
    return sample


async def positions(args: Namespace, samples: list[Sample]) -> list[float]:
    return [float(i) for i, _ in enumerate(samples)]


async def broken(args: Namespace, samples: list[Sample]) -> list[float]:
    raise ConfigError("reward", "broken", "a working one")


def drop_odd(args: Namespace, samples: list[Sample]) -> DynamicFilterOutput:
    keep = (samples[0].group_index or 0) % 2 == 0
    return DynamicFilterOutput(keep, None if keep else "odd")


def arguments(**values: Any) -> Namespace:
    """Hooks of this file, an engine that is not there."""
    fixed = {
        "sglang_router_port": 1,
        "rollout_batch_size": 3,
        "n_samples_per_prompt": 2,
        "rollout_shuffle": False,
        "custom_generate_function_path": f"{HERE}.quick",
        "custom_rm_path": f"{HERE}.positions",
    }
    args = host_args(**(fixed | values))
    args.spader_state = HostState(args, None, lambda *a, **k: None)
    return args


def source(args: Namespace, *prompts: str) -> DataSource:
    return DataSource(args, [Sample(prompt=prompt, label=[["a"]]) for prompt in prompts])


async def collect(args: Namespace, data: DataSource, rollout: int = 0) -> RolloutFnTrainOutput:
    return await Collector(args, rollout, data).run()


async def test_groups_come_in_the_order_of_the_data_source_with_their_rewards() -> None:
    args = arguments()
    output = await collect(args, source(args, "a", "b", "c", "d"))
    assert [[s.prompt for s in group] for group in output.samples] == [
        ["a", "a"],
        ["b", "b"],
        ["c", "c"],
    ]
    assert [[s.reward for s in group] for group in output.samples] == [[0.0, 1.0]] * 3
    assert {s.status for group in output.samples for s in group} == {Status.COMPLETED}


async def test_dropped_groups_are_replaced_and_counted() -> None:
    args = arguments(dynamic_sampling_filter_path=f"{HERE}.drop_odd")
    output = await collect(args, source(args, *"abcdefgh"))
    assert [group[0].prompt for group in output.samples] == ["a", "c", "e"]
    assert output.metrics is not None
    assert output.metrics["rollout/dynamic_filter/drop_odd"] in (2, 3)


async def test_over_sampling_stops_what_is_left() -> None:
    args = arguments(over_sampling_batch_size=5)
    data = source(args, "wait", "b", "wait", "d", "e")
    output = await collect(args, data)
    assert [group[0].prompt for group in output.samples] == ["b", "d", "e"]
    assert not args.spader_state.aborted and data.buffer == []


@pytest.mark.parametrize("mask", [False, True])
async def test_partial_rollout_goes_on_with_the_aborted_groups(mask: bool) -> None:
    args = arguments(
        over_sampling_batch_size=5, partial_rollout=True, mask_offpolicy_in_partial_rollout=mask
    )
    data = source(args, "wait", "b", "wait", "d", "e")
    await collect(args, data)
    assert [[s.status for s in group] for group in data.buffer] == [[Status.ABORTED] * 2] * 2
    assert data.buffer[0][0].metadata["start_rollout_id"] == 0
    output = await collect(args, data, rollout=1)
    resumed = [s for group in output.samples for s in group if s.prompt == "wait"]
    assert len(resumed) == 4
    for sample in resumed:
        assert sample.loss_mask == ([0, 1, 1] if mask else [1, 1, 1])
        assert len(sample.rollout_log_probs or []) == sample.response_length == 3


async def test_an_error_in_a_hook_ends_the_rollout() -> None:
    args = arguments(custom_rm_path=f"{HERE}.broken")
    with pytest.raises(ConfigError, match="a working one"):
        await collect(args, source(args, "a", "wait", "c"))
    assert not args.spader_state.aborted


async def test_every_sample_has_its_own_seed() -> None:
    seen: list[dict[str, Any]] = []
    args = arguments()
    args.spader_state.sampling_params["stop"] = ["x"]

    async def spy(args: Namespace, sample: Sample, params: dict[str, Any]) -> Sample:
        seen.append(params)
        return await quick(args, sample, params)

    globals()["spy"] = spy
    args.custom_generate_function_path = f"{HERE}.spy"
    await collect(args, source(args, "a", "b", "c"))
    assert len({params["sampling_seed"] for params in seen}) == 6
    assert all(params["no_stop_trim"] and params["stop"] == ["x"] for params in seen)
    assert "sampling_seed" not in args.spader_state.sampling_params


@pytest.mark.parametrize(
    "wrong",
    [{"n_sample": 3}, {"rollout_batch_size": 0}, {"sglang_router_port": None}],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        host_args(**({"sglang_router_port": 1} | wrong))


def test_trainers_get_arguments_without_the_running_state() -> None:
    assert not hasattr(trainer_args(arguments()), "spader_state")


@pytest.mark.parametrize("path", ["nothing", "no.such.module", f"{HERE}.nothing", ""])
def test_a_hook_that_is_not_there_is_named(path: str) -> None:
    with pytest.raises(ConfigError, match="hook path"):
        load_function(path)
