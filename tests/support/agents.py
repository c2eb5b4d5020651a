"""Runs the agent loop against servers on loopback sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spader_slime.agent.budget import make_budget
from spader_slime.agent.loop import LoopContext, run_episode
from spader_slime.agent.policy import PolicyClient
from spader_slime.agent.protocol import make_protocol
from spader_slime.agent.search import SearchClient
from spader_slime.agent.template import ChatBoundary
from spader_slime.config import AgentConfig, SearchConfig
from spader_slime.episode import Episode

CASES = Path(__file__).parents[1] / "cases"
QUESTION = "Which towns?"
AGENT = {"max_turns": 6, "max_turn_tokens": 500, "answer_reserve": 64}
START = "<|im_start|>assistant\n"
NOWHERE = "http://127.0.0.1:9/retrieve"  # nothing listens there
QUICK_S = 0.01  # first pause before a retry


def cases(name: str) -> list[Any]:
    """The lines of a case file."""
    lines = (CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def turns(*texts: str) -> Callable[[str], str]:
    """A script whose n-th turn says the n-th text, from where it was cut; the last one repeats."""

    def script(text: str) -> str:
        begun = text.rpartition(START)[2]
        whole = texts[min(text.count(START), len(texts)) - 1]
        assert whole.startswith(begun)
        return whole.removeprefix(begun)

    return script


def call(*queries: str) -> str:
    return f"<tool_call>{json.dumps(queries, ensure_ascii=False)}</tool_call>"


def answer(*names: str) -> str:
    return f"<answer>{json.dumps(names, ensure_ascii=False)}</answer>"


def make_context(
    engine: Any,
    search_url: str = NOWHERE,
    agent: Mapping[str, Any] | None = None,
    search: Mapping[str, Any] | None = None,
    max_response: int = 4000,
    max_context: int | None = None,
    **fields: Any,
) -> LoopContext:
    """A context for one run; `fields` are further fields of `LoopContext`."""
    config = AgentConfig(**{**AGENT, **(agent or {})})
    service = SearchConfig(**{"urls": [search_url], "retries": 1, **(search or {})})
    protocol, boundary = make_protocol(config), ChatBoundary(engine.tokenizer)
    given: dict[str, Any] = {
        "policy": PolicyClient(engine.url, retries=2, backoff_s=QUICK_S),
        "search": SearchClient(service, backoff_s=QUICK_S),
        "protocol": protocol,
        "boundary": boundary,
        "budget": make_budget(config, max_response, max_context),
        "agent": config,
        "prompt_ids": boundary.prompt_ids(protocol.messages(QUESTION)),
        "sampling_params": {"temperature": 1.0},
    }
    return LoopContext(**{**given, **fields})


def play(context: LoopContext, episode: Episode | None = None) -> Episode:
    """Run the loop to its end, then close the connections; what must always hold is checked."""

    async def run() -> Episode:
        try:
            return await run_episode(context, episode)
        finally:
            await context.policy.close()
            await context.search.close()

    return checked(asyncio.run(run()))


def checked(episode: Episode) -> Episode:
    """Arrays of one length, turns and observations that fill the response, data that is JSON."""
    length, place = len(episode.response_ids), 0
    assert len(episode.loss_mask) == len(episode.log_probs) == length
    sampled = [0] * length
    for turn in episode.turns:
        start, end = turn.span
        assert place == start < end
        sampled[start:end] = [1] * (end - start)
        place = end + turn.observation_tokens
    assert place == length and episode.loss_mask == sampled
    assert not any(p for p, m in zip(episode.log_probs, sampled, strict=True) if not m)
    assert Episode.from_dict(json.loads(json.dumps(episode.to_dict()))) == episode
    return episode


def whole_text(context: LoopContext, episode: Episode) -> str:
    """Prompt and response as text."""
    return context.boundary.decode([*episode.prompt_ids, *episode.response_ids])


def observations(context: LoopContext, episode: Episode) -> list[str]:
    """Text of every observation, in order."""
    spans = [(t.span[1], t.span[1] + t.observation_tokens) for t in episode.turns]
    return [context.boundary.decode(episode.response_ids[a:b]) for a, b in spans if a < b]


def without_times(episode: Episode) -> dict[str, Any]:
    """The episode as plain data, waiting times left out."""
    plain = episode.to_dict()
    for turn in plain["turns"]:
        turn |= {"engine_s": 0.0, "search_s": 0.0}
    return plain
