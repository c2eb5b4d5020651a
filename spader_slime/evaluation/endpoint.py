"""The policy that is asked: a served one, or a checkpoint with an engine of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from spader_slime.agent.chat import ChatPolicyClient
from spader_slime.agent.context import LoopContext
from spader_slime.agent.policy import PolicyClient
from spader_slime.agent.template import Message
from spader_slime.errors import ConfigError, EngineError

_TELLING_S = 20.0  # for an engine to say what it serves


@dataclass(frozen=True)
class Endpoint:
    """A policy that answers.

    Attributes:
        client: that the loop samples with.
        tokenizer: of the policy.
        identity: what is known of the model; answers of another one don't join these.
        max_context: its context length, where it says so.
    """

    client: PolicyClient | ChatPolicyClient
    tokenizer: Any
    identity: Mapping[str, Any]
    max_context: int | None = None

    def joined(self, context: LoopContext, messages: Sequence[Message]) -> LoopContext:
        """`context` of one trajectory, which these messages open, with this policy."""
        if isinstance(self.client, ChatPolicyClient):
            return self.client.joined(context, messages)
        return replace(context, policy=self.client)


@contextmanager
def engine_of(folder: Path, max_context: int | None, threads: int, running: int) -> Iterator[str]:
    """An embedded engine on a Hugging Face folder; its address. It ends with the block.

    Raises:
        ConfigError: no such folder.
        EngineError: it did not start.
    """
    from spader_slime.local.engine.launch import EngineProcess

    if not (folder / "config.json").is_file():
        raise ConfigError("--checkpoint", str(folder), "a Hugging Face folder, or that of a run")
    with EngineProcess(
        folder, threads=threads, max_running=running, context_length=max_context
    ) as engine:
        yield engine.url


def weights_of(folder: Path) -> list[list[Any]]:
    """Name, size and time of each weight file: tells a checkpoint from a later one."""
    files = sorted(folder.glob("*.safetensors"))
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]


async def native_endpoint(url: str, tokenizer: str | None) -> Endpoint:
    """SGLang's own protocol, or what speaks it (the embedded engine, a router).

    Args:
        tokenizer: folder or name; None: the one that the engine names.

    Raises:
        EngineError: it can't be reached, or is none.
        ConfigError: the tokenizer can't be loaded.
    """
    base = url.rstrip("/").removesuffix("/generate")
    told, reason = await _told(base, "/model_info", "/get_model_info")
    if not told:
        raise EngineError(f"{base} is no SGLang server that answers ({reason})")
    server, _ = await _told(base, "/server_info", "/get_server_info")
    return Endpoint(
        PolicyClient(base),
        load_tokenizer(tokenizer or told.get("tokenizer_path") or told.get("model_path")),
        {name: told.get(name) for name in ("model_path", "weight_version")},
        _length(server.get("context_length")),
    )


async def chat_endpoint(
    url: str, model: str | None, tokenizer: str | None, api_key: str | None
) -> Endpoint:
    """An OpenAI-compatible chat endpoint.

    Args:
        model: the name it serves the model by; None: the only one that it lists.
        tokenizer: folder or name; None: the model's name.

    Raises:
        EngineError: it can't be reached.
        ConfigError: `model` has to be chosen, or the tokenizer can't be loaded.
    """
    base = url.rstrip("/").removesuffix("/chat/completions").removesuffix("/v1")
    told, reason = await _told(base, "/v1/models", api_key=api_key)
    listed = {str(known.get("id")): known for known in told.get("data") or ()}
    if not listed and not model:
        raise EngineError(f"{base} lists no models ({reason}): name one with --model")
    if not model and len(listed) > 1:
        raise ConfigError("--model", None, f"one of {', '.join(listed)}")
    name = model or next(iter(listed))
    known = listed.get(name, {})
    return Endpoint(
        ChatPolicyClient(base, name, api_key),
        load_tokenizer(tokenizer or known.get("root") or name),
        {"model_path": known.get("root") or name},
        _length(known.get("max_model_len")),
    )


def _length(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


async def _told(base: str, *paths: str, api_key: str | None = None) -> tuple[dict[str, Any], str]:
    """The JSON object at the first of these paths that has one, else {} and why."""
    timeout, reason = aiohttp.ClientTimeout(total=_TELLING_S), ""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
        for path in paths:
            try:
                async with session.get(base + path) as reply:
                    found = orjson.loads(await reply.read()) if reply.ok else None
                    reason = f"{path} answered {reply.status}"
            except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
                reason = str(error) or type(error).__name__
                continue
            if isinstance(found, dict):
                return found, ""
    return {}, reason


def load_tokenizer(name: Any) -> Any:
    """The tokenizer in this folder or of this name.

    Raises:
        ConfigError: there is none, or transformers is not installed.
    """
    try:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(str(name))
    except (ImportError, OSError, ValueError, TypeError) as error:
        why = next(iter(str(error).splitlines()), type(error).__name__)
        allowed = f"the folder or name of the policy's tokenizer ({why})"
        raise ConfigError("--tokenizer", name, allowed) from error
