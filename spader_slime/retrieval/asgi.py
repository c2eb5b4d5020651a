"""HTTP over ASGI: reading a body within limits, answering, noticing that the caller hung up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

MAX_BODY_BYTES = 1_000_000
READ_TIMEOUT_S = 30.0  # for a body to arrive

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Reply:
    """An HTTP answer; `close` ends the connection after it."""

    status: int
    body: bytes
    content_type: str = "application/json"
    close: bool = False


class RefusedError(Exception):
    """The request is answered with an error."""

    def __init__(self, status: int, message: str, close: bool = False) -> None:
        super().__init__(message)
        self.reply = Reply(status, orjson.dumps({"error": message}), close=close)


class GoneError(Exception):
    """The caller hung up."""


async def read_body(receive: Receive) -> bytes:
    """The body of a request.

    Raises:
        RefusedError: it is larger than `MAX_BODY_BYTES` (413), or takes too long (408).
        GoneError: the caller hung up.
    """
    body, more = await _piece(receive)
    if more:
        try:
            body = await asyncio.wait_for(_rest(body, receive), READ_TIMEOUT_S)
        except asyncio.TimeoutError:
            message = f"the body did not arrive within {READ_TIMEOUT_S:.0f} s"
            raise RefusedError(408, message, close=True) from None
    if len(body) > MAX_BODY_BYTES:
        message = f"the body is larger than {MAX_BODY_BYTES} bytes"
        raise RefusedError(413, message, close=True)
    return body


async def _rest(body: bytes, receive: Receive) -> bytes:
    """The whole body; no more than one piece past the limit."""
    pieces, size, more = [body], len(body), True
    while more and size <= MAX_BODY_BYTES:
        piece, more = await _piece(receive)
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


async def _piece(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise GoneError
    return message.get("body", b""), bool(message.get("more_body"))


async def unless_gone(work: Coroutine[Any, Any, Result], receive: Receive) -> Result:
    """The result of `work`, which is cancelled as soon as the caller hangs up.

    Raises:
        GoneError: that happened, and `work` has ended.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
            raise GoneError
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_reply(send: Send, reply: Reply) -> None:
    """Answer; without effect if the caller is gone."""
    headers = [
        (b"content-type", reply.content_type.encode()),
        (b"content-length", b"%d" % len(reply.body)),
    ]
    if reply.close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
