"""Everything around one trajectory of the agent loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spader_slime.agent.budget import make_budget
from spader_slime.agent.loop import LoopContext, run_episode
from spader_slime.agent.policy import PolicyClient
from spader_slime.agent.protocol import Protocol, make_protocol
from spader_slime.agent.search import SearchClient
from spader_slime.agent.template import ChatBoundary
from spader_slime.config import AgentConfig, SearchConfig
from spader_slime.episode import Episode

NOWHERE = "http://127.0.0.1:9/retrieve"  # nothing listens there
QUESTION = "Which towns are in Norway?"
START = "<|im_start|>assistant\n"
QUICK_S = 0.01  # first pause before a retry


class Stage:
    """Clients, protocol and limits for runs against given servers; an async context manager.

    The agent's limits are small unless `agent` says otherwise; `limits` are `max_response`
    (2,000 tokens) and `max_context` (none).
    """

    def __init__(
        self,
        tokenizer: Any,
        engine_url: str,
        search_url: str = NOWHERE,
        agent: dict[str, Any] | None = None,
        search: dict[str, Any] | None = None,
        protocol: Protocol | None = None,
        **limits: Any,
    ) -> None:
        small = {"max_turns": 5, "answer_reserve": 100, "max_observation_tokens": 500}
        self.agent = AgentConfig(**{**small, **(agent or {})})
        self.protocol = protocol or make_protocol(self.agent)
        self.boundary = ChatBoundary(tokenizer)
        self.policy = PolicyClient(engine_url, retries=2, backoff_s=QUICK_S)
        found = {"urls": [search_url], "retries": 1, **(search or {})}
        self.search = SearchClient(SearchConfig(**found), backoff_s=QUICK_S)
        max_response, max_context = limits.get("max_response", 2000), limits.get("max_context")
        self.context = LoopContext(
            policy=self.policy,
            search=self.search,
            protocol=self.protocol,
            boundary=self.boundary,
            budget=make_budget(self.agent, max_response, max_context),
            agent=self.agent,
            prompt_ids=self.boundary.prompt_ids(self.protocol.messages(QUESTION)),
            sampling_params={"temperature": 1.0},
        )

    async def run(self, episode: Episode | None = None, **changes: Any) -> Episode:
        """One trajectory, with other fields of the context where given."""
        return await run_episode(replace(self.context, **changes), episode)

    async def __aenter__(self) -> Stage:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.policy.close()
        await self.search.close()


class Turns:
    """An engine script: the n-th turn of a trajectory says the n-th text, the last one again."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def __call__(self, text: str) -> str:
        return self.texts[min(text.count(START), len(self.texts)) - 1]


def spans_text(stage: Stage, episode: Episode) -> list[str]:
    """What the assistant sampled, turn by turn."""
    return [stage.boundary.decode(episode.response_ids[a:b]) for a, b in episode.step_spans]


def observations(stage: Stage, episode: Episode) -> list[str]:
    """What followed each turn, "" after the last."""
    found = []
    for turn in episode.turns:
        end = turn.span[1]
        ids = episode.response_ids[end : end + turn.observation_tokens]
        found.append(stage.boundary.decode(ids))
    return found


def without_times(episode: Episode) -> dict[str, Any]:
    """The episode as plain data, waiting times left out."""
    plain = episode.to_dict()
    for turn in plain["turns"]:
        turn.pop("engine_s")
        turn.pop("search_s")
    return plain


def check_arrays(episode: Episode) -> None:
    """Spans, mask and log-probs of an episode agree; observations stand between the turns."""
    length = len(episode.response_ids)
    assert len(episode.loss_mask) == len(episode.log_probs) == length
    mask, place = [0] * length, 0
    for turn in episode.turns:
        start, end = turn.span
        assert start == place < end
        mask[start:end] = [1] * (end - start)
        place = end + turn.observation_tokens
    assert place == length and episode.loss_mask == mask
    assert all(p == 0.0 for p, m in zip(episode.log_probs, mask, strict=True) if not m)
