"""What the agent loop's client is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import orjson

from spader_slime.agent.context import LoopContext
from spader_slime.agent.http import HttpClient


def has_httpx() -> bool:
    return find_spec("httpx") is not None


class HttpxClient(HttpClient):
    """The same calls through httpx, which slime's own rollout uses."""

    def __init__(self, connections: int) -> None:
        import httpx

        super().__init__()
        limits = httpx.Limits(max_connections=connections)
        self._client = httpx.AsyncClient(limits=limits, timeout=httpx.Timeout(None))

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        timeout_s: float,
        limit: int,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        given = {"Content-Type": "application/json", **(headers or {})}
        response = await self._client.post(url, content=body, headers=given)
        response.raise_for_status()
        return bytes(response.content)

    async def close(self) -> None:
        await self._client.aclose()


class Resender:
    """Sends the whole conversation as text every turn, over the same connections.

    Each turn renders the chat template and tokenizes all of it: it has to know how many tokens are
    left, and what to train on.
    """

    def __init__(self, context: LoopContext, tokenizer: Any, http: HttpClient) -> None:
        self._context, self._tokenizer, self._http = context, tokenizer, http

    async def run(self, question: str, engine: str, turns: int) -> int:
        """One trajectory of `turns` searches; its length in tokens."""
        context = self._context
        messages: list[dict[str, str]] = [dict(m) for m in context.protocol.messages(question)]
        ids: list[int] = []
        for turn in range(turns + 1):
            text = self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
            ids = context.boundary.encode(text)
            room = context.budget.max_response - len(ids)
            said = await self._generate(engine, text, room)
            action = context.protocol.parse(said)
            messages.append({"role": "assistant", "content": said})
            if turn < turns:
                found = await context.search.search(action.queries)
                shown = context.protocol.observation(action.queries, found.documents, 1, [])
                messages.append({"role": "tool", "content": shown})
        return len(ids)

    async def _generate(self, engine: str, text: str, room: int) -> str:
        body = orjson.dumps({"text": text, "sampling_params": self._context.turn_params(room)})
        reply = await self._http.post(engine, body, timeout_s=3600, limit=2**29)
        return str(orjson.loads(reply)["text"])
