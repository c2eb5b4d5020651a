"""The token budget of a trajectory: how many searches fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spader_slime.agent.budget import TokenBudget, make_budget
from spader_slime.agent.protocol import Protocol, make_protocol
from spader_slime.agent.template import ChatBoundary
from spader_slime.config import SpaderConfig
from spader_slime.doctor.checks.template import template_kwargs
from spader_slime.doctor.facts import DataFile, Facts, Probe
from spader_slime.doctor.findings import Finding, error, ok, warning
from spader_slime.doctor.flags import Flags

PROMPTS = 200  # of the training file, to find a long one
CALL = '<tool_call>["{}"]</tool_call>'


@dataclass(frozen=True)
class Cost:
    """Tokens of one search.

    Attributes:
        call: a turn that only makes it.
        shown: what came back for one query.
        full: an observation that uses up `max_chars`.
    """

    call: int
    shown: int
    full: int


def check(facts: Facts) -> Iterator[Finding]:
    """Prompts and responses fit the engine, and enough searches fit a response."""
    response = facts.flags.integer("rollout-max-response-len")
    if response is None:
        advice = "add it: tokens of a whole trajectory after the prompt, observations included"
        yield error("--rollout-max-response-len", "not given", advice)
        return
    config, context = facts.config.value, facts.flags.integer("rollout-max-context-len")
    if config is None:
        return
    budget = make_budget(config.agent, response, context)
    if facts.tokenizer.value is None:
        yield from _engine(facts, response, 0)
        return
    boundary = ChatBoundary(facts.tokenizer.value, template_kwargs(facts.flags))
    protocol = make_protocol(config.agent)
    prompt = max([*_prompts(facts, boundary, protocol), 0])
    yield from _engine(facts, response, prompt)
    yield from _long_prompt(facts.flags, prompt)
    cost = _cost(facts.searches, boundary, protocol, config)
    if cost is None:
        advice = "no search gave documents: how many fit a trajectory was not computed"
        yield warning("token budget", "unknown", advice)
    else:
        yield _fitting(cost, budget, prompt, config)


def _engine(facts: Facts, response: int, prompt: int) -> Iterator[Finding]:
    """The engine refuses a request that reaches its context length."""
    context = facts.flags.integer("rollout-max-context-len")
    positions = facts.model.value.positions if facts.model.value else None
    limit = facts.flags.integer("sglang-context-length", positions)
    if limit is None:
        return
    if context is not None and context > limit:
        advice = f"at most the engine's context length {limit}"
        yield error("--rollout-max-context-len", context, advice)
    elif context is None and prompt + response >= limit:
        advice = f"add --rollout-max-context-len {limit}: the engine refuses longer requests"
        yield error("--rollout-max-response-len", response, advice)


def _long_prompt(flags: Flags, prompt: int) -> Iterator[Finding]:
    """slime drops rendered prompts that are too long; plain ones only run out of room."""
    context = flags.integer("rollout-max-context-len")
    limit = flags.integer("rollout-max-prompt-len", context and context - 1)
    if limit is not None and prompt > limit:
        advice = "shorten the prompts, or raise --rollout-max-prompt-len and -context-len"
        yield warning("longest prompt", f"{prompt} of {limit} tokens", advice)


def _prompts(facts: Facts, boundary: ChatBoundary, protocol: Protocol) -> Iterator[int]:
    """Tokens of the first prompts of the training file, rendered as training does."""
    rendered = facts.flags.on("apply-chat-template")
    for file in facts.data:
        for row in file.rows[:PROMPTS]:
            messages = _messages(file, row.get(file.input_key), rendered, protocol)
            if messages:
                yield len(boundary.prompt_ids(messages))


def _messages(file: DataFile, prompt: Any, rendered: bool, protocol: Protocol) -> Any:
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}] if rendered else protocol.messages(prompt)
    good = isinstance(prompt, list) and all(isinstance(m, dict) for m in prompt)
    return prompt if good else None  # told by the data check


def _cost(
    probes: Sequence[Probe], boundary: ChatBoundary, protocol: Protocol, config: SpaderConfig
) -> Cost | None:
    """From what the services really sent; None where there was nothing."""
    shown = [(q, d) for p in probes for q, d in zip(p.queries, p.documents, strict=False) if d]
    if not shown:
        return None
    frame = len(boundary.observation_ids(protocol.frame([])))
    tokens = [len(boundary.observation_ids(protocol.observation([q], [d]))) for q, d in shown]
    characters = sum(len(d.title) + len(d.text) for _, found in shown for d in found)
    per_character = (sum(tokens) - frame * len(tokens)) / max(characters, 1)
    limit = config.agent.max_observation_tokens
    full = frame + round(per_character * config.search.max_chars)
    calls = [len(boundary.encode(CALL.format(query))) for query, _ in shown]
    mean = round(sum(tokens) / len(tokens))
    return Cost(max(calls), min(mean, limit), min(full, limit))


def _fitting(cost: Cost, budget: TokenBudget, prompt: int, config: SpaderConfig) -> Finding:
    room = budget.max_response
    if budget.max_context is not None:
        room = min(room, budget.max_context - 1 - prompt)
    room -= budget.reserve
    most, least = room // (cost.call + cost.shown), room // (cost.call + cost.full)
    turns = config.agent.max_turns - 1
    value = (
        f"{max(most, 0)} searches of one query ({cost.shown} tokens), {max(least, 0)} of "
        f"{config.search.max_chars:,} characters ({cost.full} tokens); max_turns allows {turns}"
    )
    more = "raise --rollout-max-response-len, or lower spader.search.top_k and max_chars"
    if most < 1:
        return error("token budget", value, f"not one search fits: {more}")
    if 2 * most < turns or least < 1:
        return warning("token budget", value, more)
    return ok("token budget", value, "the thinking of the model comes on top")
