"""The search service: a plain ASGI application on uvicorn.

`POST /retrieve` speaks the SPADER protocol, `POST /search_r1/retrieve` Search-R1's, and
`GET /health` says that the index is open. Queries run in the event loop: on indexes of up to
some 100,000 passages one takes well under a millisecond, less than handing it to a thread.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import orjson
import uvicorn

from spader_slime.errors import DataError
from spader_slime.retrieval import wire
from spader_slime.retrieval.budget import Shown, share
from spader_slime.retrieval.index import Backend, TantivyBackend
from spader_slime.retrieval.lifetime import exit_with_parent

MAX_BODY_BYTES = 1_000_000
MAX_QUERY_CHARS = 4_096  # longer queries are cut

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Reply = tuple[int, bytes]

_FORMS: dict[str, tuple[Callable[[bytes], wire.Request], Callable[[wire.Request, Shown], bytes]]]
_FORMS = {
    "/retrieve": (wire.parse_spader, wire.spader_response),
    "/search_r1/retrieve": (wire.parse_search_r1, wire.search_r1_response),
}


class SearchApp:
    """ASGI application over one backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, body = await self._reply(scope, receive)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _reply(self, scope: Message, receive: Receive) -> Reply:
        method, path = scope["method"], scope["path"]
        if path == "/health" and method in ("GET", "HEAD"):
            return 200, orjson.dumps({"status": "ok", "passages": len(self._backend)})
        if path not in _FORMS:
            return _error(404, f"no such path: {path}")
        if method != "POST":
            return _error(405, f"{path} wants POST")
        body = await _read(receive)
        if body is None:
            return _error(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
        return self._retrieve(path, body)

    def _retrieve(self, path: str, body: bytes) -> Reply:
        parse, respond = _FORMS[path]
        try:
            request = parse(body)
        except DataError as error:
            return _error(400, str(error))
        found = [self._backend.search(q[:MAX_QUERY_CHARS], request.top_k) for q in request.queries]
        return 200, respond(request, share(found, request.max_chars))


async def _read(receive: Receive) -> bytes | None:
    """The request body; None as soon as it turns out too large."""
    message = await receive()
    body = message.get("body", b"")
    while message.get("more_body") and len(body) <= MAX_BODY_BYTES:
        message = await receive()
        body += message.get("body", b"")
    return body if len(body) <= MAX_BODY_BYTES else None


def _error(status: int, message: str) -> Reply:
    return status, orjson.dumps({"error": message})


def serve(index: Path, host: str, port: int, die_with_parent: bool = False) -> None:
    """Serve until SIGTERM or SIGINT; calls under way are finished. Prints the URL when bound.

    Args:
        port: 0 picks a free one.
        die_with_parent: exit when the process that started this one is gone.

    Raises:
        DataError: no complete index in `index`.
    """
    app = SearchApp(TantivyBackend(index))
    if die_with_parent:
        exit_with_parent()
    listener = socket.create_server((host, port), backlog=2048)
    print(f"search service: http://{host}:{listener.getsockname()[1]}/retrieve", flush=True)
    settings = uvicorn.Config(
        app, lifespan="off", access_log=False, log_level="warning", timeout_graceful_shutdown=5
    )
    uvicorn.Server(settings).run(sockets=[listener])
