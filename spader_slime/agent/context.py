"""What one trajectory needs from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spader_slime.agent.budget import TokenBudget
from spader_slime.agent.http import never
from spader_slime.agent.policy import PolicyClient
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
    """

    policy: PolicyClient
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
