"""A chat endpoint that answers with prepared replies, faults included."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from support.web import LoopbackServer


def reply(content: Any = "hi", finish: Any = "stop", **choice: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **choice.pop("message", {})}
    return {"choices": [{"message": message, "finish_reason": finish, **choice}]}


class ChatServer(LoopbackServer):
    """Gives `replies` one after the other, the last one again: a status, a JSON value or bytes."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        super().__init__({"/v1/chat/completions": self._answer})

    async def _answer(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        self.headers.append(dict(request.headers))
        answer = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if answer == "hang":
            await asyncio.sleep(3600)
        if isinstance(answer, int):
            return web.Response(status=answer, text="scripted fault")
        if isinstance(answer, bytes):
            return web.Response(body=answer, content_type="application/json")
        return web.json_response(answer)
