"""Client of the inference engine (SGLang's /generate): token ids in, ids and log-probs out."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import orjson

from spader_slime.agent.http import HttpClient, HttpFault, never, with_retries
from spader_slime.errors import EngineError

MAX_REPLY_BYTES = 512 * 2**20  # routed experts of a long turn are large
BACKOFF_S = 0.5
RETRIES = 5
TIMEOUT_S = 3600.0
T = TypeVar("T")


@dataclass(frozen=True)
class Generation:
    """What the engine sampled in one call.

    Attributes:
        ids: sampled token ids, the end-of-turn token included if it was sampled.
        log_probs: log-prob of each, in nats.
        finish: "stop", "length" or "abort".
        matched: the token or string at which a "stop" was made.
        text: the engine's own text, for logs only.
        weight_version: the weights that sampled, as the engine names them.
        meta_info: the engine's `meta_info`, untouched.
    """

    ids: list[int]
    log_probs: list[float]
    finish: str
    matched: int | str | None = None
    text: str = ""
    weight_version: str | None = None
    meta_info: dict[str, Any] = field(default_factory=dict)


class Policy(Protocol):
    """What the agent loop samples from."""

    async def generate(
        self,
        input_ids: Sequence[int],
        sampling_params: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        rid: str | None = None,
        request: Mapping[str, Any] | None = None,
        give_up: Callable[[], bool] = never,
    ) -> Generation:
        """As `PolicyClient.generate`."""
        ...


class PolicyClient:
    """Calls one engine, or the router in front of several.

    Connection errors, timeouts and 5xx are tried again; a 4xx never (the engine would refuse it
    again).
    """

    def __init__(
        self,
        url: str,
        retries: int = RETRIES,
        backoff_s: float = BACKOFF_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._url = url.rstrip("/").removesuffix("/generate") + "/generate"
        self._retries, self._backoff_s, self._timeout_s = retries, backoff_s, timeout_s
        self._http = HttpClient()

    async def generate(
        self,
        input_ids: Sequence[int],
        sampling_params: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        rid: str | None = None,
        request: Mapping[str, Any] | None = None,
        give_up: Callable[[], bool] = never,
    ) -> Generation:
        """Sample from `input_ids`.

        Args:
            headers: sent along, for example `X-SMG-Routing-Key`.
            rid: request id, to abort this request alone.
            request: further fields of the request, for example `return_routed_experts`.
            give_up: asked before every further attempt.

        Raises:
            EngineError: refused, or failed for good, or a reply that can't be read.
        """
        fields: dict[str, Any] = {**(request or {}), "return_logprob": True}
        fields |= {"input_ids": input_ids, "sampling_params": dict(sampling_params)}
        body = orjson.dumps(fields | ({"rid": rid} if rid else {}))
        del input_ids, fields  # long lists that the garbage collector would walk while we wait

        async def attempt(number: int) -> Generation:
            reply = await self._http.post(
                self._url, body, headers=headers, timeout_s=self._timeout_s, limit=MAX_REPLY_BYTES
            )
            return _read(reply)

        return await call_engine(attempt, self._retries, self._backoff_s, give_up)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()


async def call_engine(
    attempt: Callable[[int], Awaitable[T]],
    retries: int,
    backoff_s: float,
    give_up: Callable[[], bool],
) -> T:
    """`with_retries`, with the engine's own error.

    Raises:
        EngineError: it failed for good.
    """
    try:
        return await with_retries(attempt, retries, backoff_s, give_up)
    except HttpFault as fault:
        raise EngineError(f"engine {fault.kind}: {fault}") from fault


def _read(body: bytes) -> Generation:
    try:
        reply = orjson.loads(body)
        meta = reply["meta_info"]
        finish = meta["finish_reason"]
        sampled = _triples(meta, finish["type"])
        ids = [int(triple[1]) for triple in sampled]
        log_probs = [float(triple[0]) for triple in sampled]
        version = meta.get("weight_version")
        text = reply.get("text") or ""
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise HttpFault("malformed", f"the reply can't be read: {error!r}", True) from error
    if not all(map(math.isfinite, log_probs)):
        raise HttpFault("malformed", "the reply holds log-probs that are not finite", False)
    version = None if version is None else str(version)
    return Generation(ids, log_probs, finish["type"], finish.get("matched"), text, version, meta)


def _triples(meta: dict[str, Any], finish: str) -> Sequence[Any]:
    """`[log-prob, id, text]` of each sampled token; a request aborted in the queue has none."""
    triples: Sequence[Any] | None = meta.get("output_token_logprobs")
    if triples is None:
        if finish != "abort" and meta.get("completion_tokens", 1):
            raise KeyError("output_token_logprobs")
        return ()
    return triples
