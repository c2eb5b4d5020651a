"""The embedded rollout loop: it hands samples to the hook functions with slime's arguments."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from argparse import Namespace
from contextlib import suppress
from typing import Any

import aiohttp
from tqdm import tqdm

from spader_slime.local.data_source import DataSource
from spader_slime.local.sample import Sample, Status
from spader_slime.local.seam import RolloutFnTrainOutput, load_function
from spader_slime.local.state import HostState, seeded

_ABORT_EVERY_S = 1.0


async def generate_and_reward(
    args: Namespace, sample: Sample, params: dict[str, Any], evaluation: bool = False
) -> Sample:
    """One trajectory through the generate hook, and outside group rewards through the reward."""
    if args.partial_rollout and args.mask_offpolicy_in_partial_rollout and sample.response_length:
        sample.loss_mask = [0] * sample.response_length  # tokens of an earlier policy
    if sample.status in (Status.COMPLETED, Status.TRUNCATED):
        return sample
    async with args.spader_state.semaphore:
        if args.spader_state.aborted:
            sample.status = Status.ABORTED
            return sample
        sample = await _call_generate(args, sample, params, evaluation)
    if not args.group_rm and sample.status is not Status.ABORTED and sample.reward is None:
        reward = load_function(sample.custom_rm_path or args.custom_rm_path)
        sample.reward = await reward(args, sample)
    return sample


async def _call_generate(
    args: Namespace, sample: Sample, params: dict[str, Any], evaluation: bool
) -> Sample:
    path = sample.generate_function_path or args.custom_generate_function_path
    generate = load_function(path)
    extra = {"evaluation": evaluation} if "evaluation" in _parameters(generate) else {}
    result: Sample = await generate(args, sample, params, **extra)
    return result


def _parameters(function: Any) -> Any:
    return inspect.signature(function).parameters


async def generate_group(args: Namespace, group: list[Sample]) -> list[Sample]:
    """All peers of a prompt, then the group reward (left out when the rollout was aborted)."""
    state: HostState = args.spader_state
    if state.aborted:
        return group
    for sample in group:
        sample.session_id = sample.session_id or str(uuid.uuid4())
    params = state.sampling_params
    done = await asyncio.gather(
        *(generate_and_reward(args, sample, seeded(args, sample, params)) for sample in group)
    )
    if args.group_rm and not state.aborted:
        rewards = await load_function(args.custom_rm_path)(args, done)
        for sample, reward in zip(done, rewards, strict=True):
            sample.reward = reward
    return done


class Collector:
    """Gathers `args.rollout_batch_size` groups that pass the filter, and stops the rest."""

    def __init__(self, args: Namespace, rollout_id: int, source: DataSource) -> None:
        self.args, self.rollout_id, self.source = args, rollout_id, source
        self.pending: set[asyncio.Task[list[Sample]]] = set()
        self.kept: list[list[Sample]] = []
        self.dropped: dict[str, int] = {}

    async def run(self) -> RolloutFnTrainOutput:
        """The groups in the data source's order, and how many the filter dropped, by reason."""
        target = self.args.rollout_batch_size
        title = f"rollout {self.rollout_id}"
        with tqdm(total=target, desc=title, unit="group", leave=False, disable=None) as bar:
            try:
                while len(self.kept) < target:
                    await self._advance(target)
                    bar.update(len(self.kept) - bar.n)
            finally:
                await self._stop()
        self.kept.sort(key=_index)
        return RolloutFnTrainOutput(self.kept, dict(self.dropped))

    async def _advance(self, target: int) -> None:
        while len(self.pending) + len(self.kept) < target:
            for group in self.source.get_samples(self.args.over_sampling_batch_size):
                self.pending.add(asyncio.ensure_future(generate_group(self.args, group)))
        done, self.pending = await asyncio.wait(self.pending, return_when=asyncio.FIRST_COMPLETED)
        for group in _results(done):
            if len(self.kept) < target and self._passes(group):
                self.kept.append(group)

    def _passes(self, group: list[Sample]) -> bool:
        if self.args.dynamic_sampling_filter_path is None:
            return True
        verdict = load_function(self.args.dynamic_sampling_filter_path)(self.args, group)
        if not verdict.keep:
            name = f"rollout/dynamic_filter/drop_{verdict.reason}"
            self.dropped[name] = self.dropped.get(name, 0) + 1
        return bool(verdict.keep)

    async def _stop(self) -> None:
        state: HostState = self.args.spader_state
        waiting, self.pending = self.pending, set()
        try:
            state.aborted = bool(waiting)
            running = waiting
            while running:
                await abort_engine(self.args)
                _, running = await asyncio.wait(running, timeout=_ABORT_EVERY_S)
        finally:
            state.aborted = False
        finished = {task for task in waiting if task.exception() is None}
        if self.args.partial_rollout:
            self._put_back(_results(finished))

    def _put_back(self, groups: list[list[Sample]]) -> None:
        for sample in (s for group in groups for s in group if s.response):
            sample.metadata.setdefault("start_rollout_id", self.rollout_id)
        self.source.add_samples(groups)


def _results(done: set[asyncio.Task[list[Sample]]]) -> list[list[Sample]]:
    """What the tasks gave, in the data source's order; the first error is raised."""
    for error in [task.exception() for task in done]:  # all looked at, none left unretrieved
        if error is not None:
            raise error
    return sorted((task.result() for task in done), key=_index)


def _index(group: list[Sample]) -> int:
    return group[0].index or 0


async def abort_engine(args: Namespace) -> None:
    """Ask the engine to drop all requests; one that is gone has nothing left to drop."""
    url = f"http://{args.sglang_router_ip}:{args.sglang_router_port}/abort_request"
    with suppress(aiohttp.ClientError, asyncio.TimeoutError):
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
            await (await session.post(url, json={"abort_all": True})).read()
