"""The tokenizer's chat template: where turns begin and end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from spader_slime.agent.protocol import make_protocol
from spader_slime.agent.template import ChatBoundary
from spader_slime.config import SpaderConfig
from spader_slime.doctor.facts import Facts
from spader_slime.doctor.findings import Finding, error, ok, warning
from spader_slime.doctor.flags import Flags
from spader_slime.errors import ConfigError

PROBE_TURN = '<think>\nx\n</think>\n\n<tool_call>["y"]</tool_call>'


def check(facts: Facts) -> Iterator[Finding]:
    """Our prompt renders, a turn has an end, and an observation can follow it."""
    tokenizer, model, config = facts.tokenizer.value, facts.model.value, facts.config.value
    if tokenizer is None:
        if facts.paths.get("hf-checkpoint", "missing") != "missing":  # else told elsewhere
            yield _no_tokenizer(facts)
        return
    if model is not None and len(tokenizer) > model.vocabulary:
        advice = (
            f"more than config.json's vocab_size {model.vocabulary}: not this model's tokenizer"
        )
        yield error("tokenizer", f"{len(tokenizer)} tokens", advice)
    if config is None:
        return
    boundary = ChatBoundary(tokenizer, template_kwargs(facts.flags))
    prompt = boundary.prompt_ids(make_protocol(config.agent).messages("?"))
    if boundary.end_id is None:
        advice = "the template ends a turn with text: set rollout stops, or use a chat template"
        yield warning("chat template", "no end-of-turn token", advice)
    else:
        value = (
            f"observations as {boundary.role}, turns end with {boundary.decode([boundary.end_id])}"
        )
        yield ok("chat template", value, _history(tokenizer, boundary, config, facts.flags))
    yield ok("prompt", f"{len(prompt)} tokens before the question")


def template_kwargs(flags: Flags) -> dict[str, Any]:
    """--apply-chat-template-kwargs as a mapping.

    Raises:
        ConfigError: it is not a JSON object.
    """
    text = flags.text("apply-chat-template-kwargs") or "{}"
    try:
        found = json.loads(text)
    except ValueError as fault:
        raise ConfigError("--apply-chat-template-kwargs", text, "a JSON object") from fault
    if not isinstance(found, Mapping):
        raise ConfigError("--apply-chat-template-kwargs", text, "a JSON object")
    return dict(found)


def _no_tokenizer(facts: Facts) -> Finding:
    folder = facts.flags.text("hf-checkpoint") or "not given"
    if "missing: pip" in facts.tokenizer.missing:
        advice = f"template and token budget were not checked: {facts.tokenizer.missing}"
        return warning("tokenizer", folder, advice)
    return error("tokenizer", folder, facts.tokenizer.missing)


def _history(tokenizer: Any, boundary: ChatBoundary, config: SpaderConfig, flags: Flags) -> str:
    """Whether the whole conversation, rendered at once, is what the agent loop puts together."""
    messages = make_protocol(config.agent).messages("?")
    said = {"role": "assistant", "content": PROBE_TURN}
    whole = tokenizer.apply_chat_template(
        [*messages, said, {"role": boundary.role, "content": "z"}],
        tokenize=False,
        add_generation_prompt=True,
        **template_kwargs(flags),
    )
    turn = boundary.encode(PROBE_TURN.removeprefix(boundary.turn_prefix))
    pieces = [*boundary.prompt_ids(messages), *turn, *boundary.observation_ids("z")]
    if boundary.encode(str(whole)) == pieces:
        return "it only ever appends"
    return "it rewrites earlier turns; the sampled history is kept (docs/agent.md)"
