"""The protocols by name."""

from __future__ import annotations

from spader_slime.agent.protocols import prompts
from spader_slime.agent.protocols.base import MAX_QUERIES, Action, Protocol, error_lines
from spader_slime.agent.protocols.calls import parse_tool_call
from spader_slime.agent.protocols.search_r1 import SearchR1Protocol
from spader_slime.agent.protocols.spader import CitedSpaderProtocol, SpaderProtocol
from spader_slime.config import AgentConfig

__all__ = [
    "MAX_QUERIES",
    "PROTOCOLS",
    "Action",
    "Protocol",
    "error_lines",
    "make_protocol",
    "parse_tool_call",
]

PROTOCOLS: dict[str, tuple[type[Protocol], prompts.Prompt]] = {
    "spader": (SpaderProtocol, prompts.SPADER),
    "spader_cited": (CitedSpaderProtocol, prompts.SPADER_CITED),
    "search_r1": (SearchR1Protocol, prompts.SEARCH_R1),
}


def make_protocol(config: AgentConfig) -> Protocol:
    """The protocol `config.protocol` names, with the prompt of `config.prompt_file` if given.

    Raises:
        ConfigError: the prompt file can't be read.
    """
    kind, prompt = PROTOCOLS[config.protocol]
    return kind(prompts.load_prompt(config.prompt_file) if config.prompt_file else prompt)
