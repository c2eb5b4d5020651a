"""The search service: a plain ASGI application.

`POST /retrieve` speaks the protocol the service was started with (SPADER's unless said),
`POST /spader/retrieve` and `POST /search_r1/retrieve` the one they name. `GET /health` says that
the index is open, `/metrics` counts, `/docs` and `/openapi.json` explain.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import orjson

from spader_slime.errors import DataError
from spader_slime.retrieval import page, wire
from spader_slime.retrieval.asgi import (
    GoneError,
    Message,
    Receive,
    RefusedError,
    Reply,
    Send,
    read_body,
    send_reply,
    unless_gone,
)
from spader_slime.retrieval.budget import Shown
from spader_slime.retrieval.metrics import CONTENT_TYPE, Metrics
from spader_slime.retrieval.work import Work

Form = tuple[Callable[[bytes], wire.Request], Callable[[wire.Request, Shown, bool], bytes]]
PROTOCOLS: dict[str, Form] = {  # how a request is read and an answer written
    "spader": (wire.parse_spader, wire.spader_response),
    "search_r1": (wire.parse_search_r1, wire.search_r1_response),
}


class SearchApp:
    """ASGI application.

    Args:
        work: what searches.
        protocol: of `/retrieve`, a key of `PROTOCOLS`.
    """

    def __init__(self, work: Work, metrics: Metrics, protocol: str = "spader") -> None:
        self._work, self._metrics = work, metrics
        self._forms = {f"/{name}/retrieve": form for name, form in PROTOCOLS.items()}
        self._forms["/retrieve"] = PROTOCOLS[protocol]
        self._pages: dict[str, Callable[[], Reply]] = {
            "/health": self._health,
            "/metrics": lambda: Reply(200, metrics.text(), CONTENT_TYPE),
            "/docs": lambda: Reply(200, page.HTML.encode(), "text/html; charset=utf-8"),
            "/openapi.json": lambda: Reply(200, orjson.dumps(page.OPENAPI)),
        }
        metrics.passages.set(len(work.backend))

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status = 500
        try:
            with self._metrics.in_flight.track_inprogress():
                reply = await self._reply(scope["method"], scope["path"], receive)
            status = reply.status
            await send_reply(send, reply)
        except RefusedError as refused:
            status = refused.reply.status
            await send_reply(send, refused.reply)
        except GoneError:
            status = 499  # as nginx counts callers that hang up
        finally:
            self._count(scope["path"], status)

    async def _reply(self, method: str, path: str, receive: Receive) -> Reply:
        if path in self._pages:
            if method not in ("GET", "HEAD"):
                raise RefusedError(405, f"{path} wants GET")
            return self._pages[path]()
        if path not in self._forms:
            raise RefusedError(404, f"no such path: {path}")
        if method != "POST":
            raise RefusedError(405, f"{path} wants POST")
        return await self._retrieve(path, receive)

    async def _retrieve(self, path: str, receive: Receive) -> Reply:
        parse, respond = self._forms[path]
        body = await read_body(receive)
        began = time.perf_counter()
        try:
            request = parse(body)
        except DataError as error:
            raise RefusedError(400, str(error)) from error
        if self._work.immediate:
            shown = self._work.answer_now(request)
        else:
            shown = await unless_gone(self._work.answer(request), receive)
        answer = respond(request, shown, self._work.reranks(request))
        self._metrics.answered(shown, time.perf_counter() - began)
        return Reply(200, answer)

    def _count(self, path: str, status: int) -> None:
        known = path if path in self._forms or path in self._pages else "other"
        self._metrics.requests.labels(known, str(status)).inc()

    def _health(self) -> Reply:
        return Reply(200, orjson.dumps({"status": "ok", "passages": len(self._work.backend)}))
