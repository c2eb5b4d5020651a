"""What all trajectories of a process share: protocol, chat boundary, connections.

Connections belong to an event loop. A host may run several (slime's fully-async rollout has one,
its evaluation another), so there is one set for each.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from spader_slime import adapter
from spader_slime.agent.budget import make_budget
from spader_slime.agent.loop import LoopContext
from spader_slime.agent.policy import PolicyClient
from spader_slime.agent.protocol import Protocol, make_protocol
from spader_slime.agent.search import SearchClient
from spader_slime.agent.teacher import TeacherClient
from spader_slime.agent.template import ChatBoundary
from spader_slime.config import SpaderConfig


@dataclass(frozen=True)
class Runtime:
    """Shared parts of one event loop."""

    protocol: Protocol
    boundary: ChatBoundary
    search: SearchClient
    policy: PolicyClient
    teacher: TeacherClient | None = None

    async def close(self) -> None:
        """Close all connections."""
        await self.search.close()
        await self.policy.close()
        if self.teacher is not None:
            await self.teacher.close()


_runtimes: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Any, Runtime]] = WeakKeyDictionary()


def shared(
    config: SpaderConfig, tokenizer: Any, url: str, vocab: int | None = None, **template: Any
) -> Runtime:
    """The running loop's set for this configuration, tokenizer and engine address."""
    found = _runtimes.setdefault(asyncio.get_running_loop(), {})
    key = (id(config), id(tokenizer), url, repr(template))
    if key not in found:
        teaches = config.distillation.active
        found[key] = Runtime(
            make_protocol(config.agent),
            ChatBoundary(tokenizer, template or None),
            SearchClient(config.search),
            PolicyClient(url),
            TeacherClient(config.distillation, tokenizer, vocab, verify=True) if teaches else None,
        )
    return found[key]


def _runtime(args: Namespace, tokenizer: Any, **template: Any) -> Runtime:
    """The running loop's set under the host's arguments; `template` adds to theirs."""
    vocab = getattr(args, "vocab_size", None)
    template = {**(args.apply_chat_template_kwargs or {}), **template}
    return shared(adapter.settings(args), tokenizer, adapter.engine_url(args), vocab, **template)


def teacher(args: Namespace) -> TeacherClient:
    """The running loop's client of the teacher; there must be one."""
    client = _runtime(args, adapter.host_state(args).tokenizer).teacher
    assert client is not None, "no teacher in the configuration"
    return client


async def close_clients() -> None:
    """Close every connection of the running loop."""
    for runtime in _runtimes.pop(asyncio.get_running_loop(), {}).values():
        await runtime.close()


def context(
    args: Namespace, sample: Any, sampling_params: dict[str, Any], evaluation: bool
) -> LoopContext:
    """Everything the agent loop needs for one trajectory of `sample`.

    Raises:
        ConfigError: limits that leave no room for an answer, or an unusable chat template.
    """
    config, state = adapter.settings(args), adapter.host_state(args)
    runtime = _runtime(args, state.tokenizer, **sample.apply_chat_template_kwargs)
    length, limit = sampling_params["max_new_tokens"], adapter.context_length(args, evaluation)
    return LoopContext(
        policy=runtime.policy,
        search=runtime.search,
        protocol=runtime.protocol,
        boundary=runtime.boundary,
        budget=make_budget(config.agent, length, limit),
        agent=config.agent,
        prompt_ids=prompt_ids(runtime, sample.prompt, args.apply_chat_template),
        sampling_params=sampling_params,
        headers=adapter.engine_headers(args, sample),
        request=adapter.engine_request(args),
        aborted=lambda: state.aborted,
        on_tokens=partial(_append, args, sample),
    )


def prompt_ids(runtime: Runtime, prompt: Any, rendered: bool) -> list[int]:
    """Token ids of a prompt: messages, a `rendered` chat, or a question to put into our prompt."""
    if isinstance(prompt, str) and rendered:
        return runtime.boundary.encode(prompt)
    messages = runtime.protocol.messages(prompt) if isinstance(prompt, str) else prompt
    return runtime.boundary.prompt_ids(messages)


def _append(
    args: Namespace,
    sample: Any,
    ids: list[int],
    log_probs: list[float] | None,
    meta_info: dict[str, Any] | None,
    text: str,
) -> None:
    """Sampled tokens (with log-probs) or an observation, into the host's sample."""
    sample.append_response_tokens(
        args,
        tokens=ids,
        log_probs=log_probs,
        trainable=log_probs is not None,
        meta_info=meta_info,
        text=text,
    )
