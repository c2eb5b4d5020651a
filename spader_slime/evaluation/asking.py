"""Asks what is still to be asked, many trajectories at once, and logs each as it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from spader_slime.agent.budget import make_budget
from spader_slime.agent.loop import LoopContext, run_episode
from spader_slime.agent.protocol import make_protocol
from spader_slime.agent.search import SearchClient
from spader_slime.agent.template import ChatBoundary
from spader_slime.errors import SearchError
from spader_slime.evaluation.endpoint import Endpoint
from spader_slime.evaluation.log import AnswerLog, Key, lost
from spader_slime.evaluation.questions import Asked
from spader_slime.evaluation.record import line_of
from spader_slime.evaluation.settings import Plan

MIN_LOST = 20  # trajectories lost one after the other before the rest is given up
_PROBE = "test"


@dataclass(frozen=True)
class Trajectory:
    """One question, to be answered for the `sample`-th time."""

    asked: Asked
    sample: int

    @property
    def key(self) -> Key:
        return self.asked.dataset, self.asked.number, self.sample


def trajectories(plan: Plan, limit: int | None = None) -> list[Trajectory]:
    """All that the plan asks: of each data set the first `limit` questions, every sample."""
    return [
        Trajectory(asked, sample)
        for data in plan.data
        for asked in data.questions[:limit]
        for sample in range(plan.ask.samples)
    ]


class Asker:
    """Runs trajectories against one endpoint and one search service.

    Args:
        concurrency: trajectories in flight.

    Raises:
        ConfigError: limits that leave no room for an answer, an unusable chat template, or a bad
            search address.
    """

    def __init__(self, plan: Plan, endpoint: Endpoint, log: AnswerLog, concurrency: int) -> None:
        self._plan, self._endpoint, self._log = plan, endpoint, log
        self._concurrency, self._lost_in_a_row = concurrency, 0
        self._protocol = make_protocol(plan.spader.agent)
        self._boundary = ChatBoundary(endpoint.tokenizer, plan.template)
        self._search = SearchClient(plan.spader.search)
        limit = plan.ask.max_context or endpoint.max_context
        self._budget = make_budget(plan.spader.agent, plan.ask.max_tokens, limit)

    async def run(self, wanted: Sequence[Trajectory]) -> None:
        """Ask all of `wanted`; ends early when nothing but losses comes back.

        Raises:
            SearchError: the search service does not answer at all.
        """
        try:
            if wanted:
                await self._probe()
            with tqdm(total=len(wanted), desc="evaluation", unit="answer", disable=None) as bar:
                waiting = iter(wanted)
                workers = (self._work(waiting, bar) for _ in range(self._concurrency))
                await asyncio.gather(*workers)
        finally:
            await self._search.close()
            await self._endpoint.client.close()

    async def _probe(self) -> None:
        try:
            await self._search.search([_PROBE])
        except SearchError as error:
            if not error.refused:
                raise

    async def _work(self, waiting: Iterator[Trajectory], bar: Any) -> None:
        for one in waiting:
            if self._lost_in_a_row >= max(MIN_LOST, self._concurrency):
                return
            line = await self._answer(one)
            self._lost_in_a_row = self._lost_in_a_row + 1 if lost(line) else 0
            self._log.add(line)
            bar.update()

    async def _answer(self, one: Trajectory) -> dict[str, Any]:
        episode = await run_episode(self._context(one))
        return line_of(one.asked, one.sample, episode, self._protocol, self._boundary)

    def _context(self, one: Trajectory) -> LoopContext:
        ask, prompt = self._plan.ask, one.asked.prompt
        messages = self._protocol.messages(prompt) if isinstance(prompt, str) else prompt
        context = LoopContext(
            policy=self._endpoint.client,  # type: ignore[arg-type]  # see `joined`
            search=self._search,
            protocol=self._protocol,
            boundary=self._boundary,
            budget=self._budget,
            agent=self._plan.spader.agent,
            prompt_ids=self._boundary.prompt_ids(messages),
            sampling_params=ask.sampling_params(one.asked.number * ask.samples + one.sample),
        )
        return self._endpoint.joined(context, messages)
