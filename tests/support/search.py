"""A search service with faults on demand, speaking the SPADER /retrieve protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web

from support.web import LoopbackServer

Documents = list[tuple[str, str]]


class ScriptedSearch(LoopbackServer):
    """`find(query)` gives (title, text) pairs; `fault(number of the request)` names a fault or "".

    Faults: "status" (500), "garbage" (not JSON), "shape" (JSON of another shape), "huge" (100 MB),
    "slow" (no answer until the client hangs up).
    """

    def __init__(
        self, find: Callable[[str], Documents], fault: Callable[[int], str] = lambda n: ""
    ) -> None:
        self.find, self.fault = find, fault
        self.requests: list[dict[str, Any]] = []
        super().__init__({"/retrieve": self._retrieve})

    @property
    def endpoint(self) -> str:
        return f"{self.url}/retrieve"

    async def _retrieve(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        fault = self.fault(len(self.requests))
        if fault:
            return await getattr(self, f"_{fault}")(request)
        result = [{"query": q, "documents": self._documents(q)} for q in body["queries"]]
        return web.json_response({"result": result})

    def _documents(self, query: str) -> list[dict[str, str]]:
        return [{"title": title, "contents": text} for title, text in self.find(query)]

    async def _status(self, request: web.Request) -> web.Response:
        return web.Response(status=500, text="scripted failure")

    async def _garbage(self, request: web.Request) -> web.Response:
        return web.Response(body=b"\x00\xff not json", content_type="application/json")

    async def _shape(self, request: web.Request) -> web.Response:
        return web.json_response({"result": [[1, 2], "x"]})

    async def _huge(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_type = "application/json"
        await response.prepare(request)
        piece = b'"' + b"x" * (1 << 20)
        for _ in range(100):
            await response.write(piece)
        return response

    async def _slow(self, request: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        raise AssertionError("nobody waits that long")
