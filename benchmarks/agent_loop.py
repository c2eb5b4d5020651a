"""CPU that the agent loop's client spends on a turn: one engine call and one search.

    python benchmarks/agent_loop.py [--trajectories 1024] [--turns 8] [--rounds 3]   # 6 minutes

`hooks.generate` plays all trajectories at once against an engine and a search service that answer
at once, from processes of their own. A turn samples about 60 tokens, an observation has 2,000
characters. Counted is the CPU time of this process alone, so that the servers, and whatever else
the machine does, stay out of it. Tokenizing (encoding and decoding) is shown apart as well.

Beside it: the same loop through httpx (of the extra [dev]), and a client that sends its
conversation as text and tokenizes all of it every turn. docs/agent.md has the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_scene import QUESTION, engine_reply, make_tokenizer, search_reply
from instant_servers import serving
from other_clients import HttpxClient, Resender, has_httpx
from timing import table

from spader_slime import adapter, hooks, record, runtime
from spader_slime.agent.template import ChatBoundary
from spader_slime.episode import End
from spader_slime.local.arguments import host_args
from spader_slime.local.sample import Sample
from spader_slime.local.state import HostState

RESPONSE_TOKENS = 65_536  # far more than a trajectory needs


class Clock:
    """CPU seconds of this thread inside the tokenizer."""

    def __init__(self) -> None:
        self.seconds = 0.0
        for name in ("encode", "decode"):
            setattr(ChatBoundary, name, self._timed(getattr(ChatBoundary, name)))

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            began = time.thread_time()
            try:
                return function(*arguments)
            finally:
                self.seconds += time.thread_time() - began

        return call


@dataclass(frozen=True)
class Scene:
    """Arguments of the hooks for `trajectories` of `turns` searches, and the tokenizer's clock."""

    args: Namespace
    trajectories: int
    turns: int
    clock: Clock

    async def ours(self) -> None:
        """Every trajectory through the generate hook."""
        await asyncio.gather(*(self._generate() for _ in range(self.trajectories)))

    async def through_httpx(self) -> None:
        """The same, with another HTTP client underneath."""
        context = self._context(Sample(prompt=QUESTION))
        context.policy._http = HttpxClient(self.trajectories)
        context.search._http = HttpxClient(self.trajectories)
        await self.ours()

    async def resending(self) -> None:
        """Text in, text out, all of it tokenized every turn."""
        context = self._context(Sample(prompt=QUESTION))
        engine = adapter.engine_url(self.args) + "/generate"
        client = Resender(context, self.args.spader_state.tokenizer, context.policy._http)
        runs = (client.run(QUESTION, engine, self.turns) for _ in range(self.trajectories))
        await asyncio.gather(*runs)

    def _context(self, sample: Sample) -> Any:
        return runtime.context(self.args, sample, self._params(), False)

    def _params(self) -> dict[str, Any]:
        return dict(self.args.spader_state.sampling_params)

    async def _generate(self) -> None:
        sample = Sample(prompt=QUESTION)
        await hooks.generate(self.args, sample, self._params())
        episode = record.notes(sample)["episode"]
        assert episode["end"] == End.TURN_LIMIT.value and len(episode["turns"]) == self.turns + 1

    def measure(self, client: Callable[[Scene], Any]) -> tuple[float, float]:
        """CPU milliseconds of a turn: all of it, and of the tokenizer."""

        async def play() -> tuple[float, float]:
            self.clock.seconds, began = 0.0, time.process_time()
            await client(self)
            taken = time.process_time() - began
            await runtime.close_clients()
            return taken, self.clock.seconds

        gc.collect()
        taken, tokenizing = asyncio.run(play())
        turns = self.trajectories * self.turns
        return taken / turns * 1e3, tokenizing / turns * 1e3


def make_scene(tokenizer: Any, ports: list[int], options: Namespace) -> Scene:
    url = f"http://127.0.0.1:{ports[1]}/retrieve"
    agent = {"max_turns": options.turns + 1, "answer_reserve": 64}
    search = {"urls": [url], "concurrency": options.trajectories}
    args = host_args(
        sglang_router_port=ports[0],
        rollout_max_response_len=RESPONSE_TOKENS,
        spader={"agent": agent, "search": search},
    )
    args.spader_state = HostState(args, tokenizer, lambda *a, **k: None)
    return Scene(args, options.trajectories, options.turns, Clock())


def report(scene: Scene, rounds: int) -> str:
    """The best of all rounds of each client, taken in turns (httpx is so slow that it has one)."""
    clients = {"ours": Scene.ours, "text sent again": Scene.resending}
    if has_httpx():
        clients["through httpx"] = Scene.through_httpx
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in clients}
    for number in range(rounds):
        for name, client in clients.items():
            if number and client is Scene.through_httpx:
                continue
            found[name].append(scene.measure(client))
    best = {name: min(values) for name, values in found.items()}
    rows = [
        [name, f"{all_ms:.2f} ms", f"{tokens_ms:.2f} ms", f"{all_ms / best['ours'][0]:.1f} x"]
        for name, (all_ms, tokens_ms) in best.items()
    ]
    return table(["client", "CPU of a turn", "tokenizing", "to ours"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trajectories", type=int, default=1024)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # two connections a trajectory
    tokenizer = make_tokenizer()
    print(f"{options.trajectories} trajectories at once, {options.turns} turns each")
    if not has_httpx():
        print("httpx is not installed, so not measured: pip install -e .[dev]")
    with serving(engine_reply(tokenizer), search_reply()) as ports:
        print(report(make_scene(tokenizer, ports, options), options.rounds))


if __name__ == "__main__":
    main()
