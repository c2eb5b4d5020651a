"""What the agent loop is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spader_slime.agent.budget import TokenBudget
from spader_slime.agent.http import never
from spader_slime.agent.observe import Observation
from spader_slime.agent.policy import Policy
from spader_slime.agent.protocol import Protocol
from spader_slime.agent.search import SearchClient
from spader_slime.agent.template import ChatBoundary
from spader_slime.agent.transcript import OnTokens
from spader_slime.config import AgentConfig


@dataclass(frozen=True)
class LoopContext:
    """Everything one trajectory needs.

    Attributes:
        policy, search: clients of the engine and of the search service.
        protocol: how searches and answers are written.
        boundary: chat tokens around the sampled spans.
        budget: limits in tokens.
        agent: limit of turns, and what follows a turn without action.
        prompt_ids: token ids of the prompt, generation prompt included.
        sampling_params: SGLang's; `max_new_tokens`, stops and text options are set per turn.
        headers, request: sent along with every engine call.
        aborted: asked before every engine and search call, and after every search.
        on_tokens: told of all tokens as they are added.
        on_observation: told of every observation once it is added.
    """

    policy: Policy
    search: SearchClient
    protocol: Protocol
    boundary: ChatBoundary
    budget: TokenBudget
    agent: AgentConfig
    prompt_ids: Sequence[int]
    sampling_params: Mapping[str, Any]
    headers: Mapping[str, str] | None = None
    request: Mapping[str, Any] | None = None
    aborted: Callable[[], bool] = never
    on_tokens: OnTokens | None = None
    on_observation: Callable[[Observation], None] = lambda shown: None

    def turn_params(self, room: int) -> dict[str, Any]:
        """Sampling parameters of an engine call that may sample `room` tokens."""
        given = self.sampling_params
        stops = [*self.protocol.stop, *_listed(given.get("stop"))]
        ids = [*self.boundary.stop_token_ids, *(given.get("stop_token_ids") or ())]
        return {
            **given,
            "max_new_tokens": room,
            "stop": list(dict.fromkeys(stops)) or None,
            "stop_token_ids": list(dict.fromkeys(ids)),
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
            "no_stop_trim": True,
        }


def _listed(stop: Any) -> list[str]:
    return [stop] if isinstance(stop, str) else list(stop or ())
