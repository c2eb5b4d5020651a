"""The HTTP side of the engine: SGLang's native routes, and the chat route, over a scheduler."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from spader_slime.errors import EngineError
from spader_slime.local.engine import info
from spader_slime.local.engine.chat import Chat
from spader_slime.local.engine.jobs import Result
from spader_slime.local.engine.messages import json_reply, read_body, refused_as_json
from spader_slime.local.engine.params import RequestError
from spader_slime.local.engine.replies import make_reply
from spader_slime.local.engine.scheduler import Scheduler
from spader_slime.local.engine.wire import GenerateRequest, parse_generate

MAX_BODY_BYTES = 64 * 2**20
HEALTH_TIMEOUT_S = 20.0

Handler = Callable[[web.Request], Awaitable[web.Response]]


class Server:
    """Answers requests; the work is done by `scheduler`, which must have been started."""

    def __init__(self, scheduler: Scheduler, served: info.Served) -> None:
        self._scheduler, self._served = scheduler, served
        self._chat = Chat(served)
        self._numbers = itertools.count()

    def app(self) -> web.Application:
        """The application. Every route takes GET and POST."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[refused_as_json])
        for path, handler in self._routes().items():
            app.router.add_route("*", path, handler)
        return app

    def _routes(self) -> dict[str, Handler]:
        return {
            "/generate": self._generate,
            "/v1/chat/completions": self._chat_completions,
            "/v1/models": self._telling(lambda *_: self._chat.models()),
            "/abort_request": self._abort,
            "/update_weights_from_disk": self._update_weights,
            "/flush_cache": self._flush,
            "/pause_generation": self._pause,
            "/continue_generation": self._continue,
            "/health": self._health,
            "/health_generate": self._health_generate,
            "/get_weight_version": self._weight_version,
            "/server_info": self._telling(info.server_info),
            "/get_server_info": self._telling(info.server_info),
            "/model_info": self._telling(info.model_info),
            "/get_model_info": self._telling(info.model_info),
            "/v1/loads": self._telling(lambda scheduler, _: info.loads(scheduler)),
        }

    async def _generate(self, request: web.Request) -> web.Response:
        limits = self._served.limits
        requests, batched = parse_generate(await read_body(request), limits)
        results = await self._run(requests)
        if broken := _broken(results):
            return broken
        replies = [make_reply(result, limits.tokenizer) for result in results]
        return json_reply(replies if batched else replies[0])

    async def _chat_completions(self, request: web.Request) -> web.Response:
        asked = self._chat.parse(await read_body(request))
        results = await self._run([asked.sampled])
        return _broken(results) or json_reply(self._chat.reply(asked, results[0]))

    async def _run(self, requests: list[GenerateRequest]) -> list[Result]:
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Result]] = [loop.create_future() for _ in requests]
        for request, future in zip(requests, futures, strict=True):
            self._scheduler.submit(request, _hand_over(loop, future))
        try:
            return list(await asyncio.gather(*futures))
        except asyncio.CancelledError:  # the client hung up
            self._scheduler.abort({request.rid for request in requests}.__contains__)
            raise

    async def _abort(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        start, everything = body.get("rid") or "", bool(body.get("abort_all"))
        if not isinstance(start, str):
            raise RequestError("'rid' must be a string")
        if start or everything:
            self._scheduler.abort(lambda rid: everything or rid.startswith(start))
        return web.Response()

    async def _update_weights(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        folder, version = body.get("model_path"), body.get("weight_version")
        if not isinstance(folder, str):
            raise RequestError("'model_path' must be a folder on this machine")
        if body.get("abort_all_requests"):
            self._scheduler.abort(lambda rid: True)
        name = None if version is None else str(version)
        reply = {"success": True, "message": "Succeeded to update model weights."}
        try:
            await asyncio.wrap_future(self._scheduler.update_weights(Path(folder), name))
        except EngineError as error:
            reply = {"success": False, "message": str(error)}
        return json_reply(reply | {"num_paused_requests": 0}, 200 if reply["success"] else 400)

    async def _flush(self, request: web.Request) -> web.Response:
        if await asyncio.wrap_future(self._scheduler.flush()):
            return web.Response(text="Cache flushed.\n")
        return web.Response(text="Not flushed: requests are running or waiting.\n", status=400)

    async def _pause(self, request: web.Request) -> web.Response:
        mode = (await read_body(request)).get("mode", "abort")
        if mode not in ("abort", "retract", "in_place"):
            raise RequestError("'mode' must be abort, retract or in_place")
        if mode == "abort":
            self._scheduler.abort(lambda rid: True)
        self._scheduler.pause(True)
        return json_reply({"message": "Generation paused successfully.", "status": "ok"})

    async def _continue(self, request: web.Request) -> web.Response:
        self._scheduler.pause(False)
        return json_reply({"message": "Generation continued successfully.", "status": "ok"})

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if self._scheduler.healthy else 503)

    async def _health_generate(self, request: web.Request) -> web.Response:
        body = {"input_ids": [0], "sampling_params": {"max_new_tokens": 1, "temperature": 0}}
        body |= {"rid": f"HEALTH_CHECK_{next(self._numbers)}"}
        requests, _ = parse_generate(body, self._served.limits)
        try:
            results = await asyncio.wait_for(self._run(requests), HEALTH_TIMEOUT_S)
        except asyncio.TimeoutError:
            return web.Response(status=503)
        return web.Response(status=503 if results[0].reason["type"] == "error" else 200)

    async def _weight_version(self, request: web.Request) -> web.Response:
        return json_reply({"weight_version": self._scheduler.version})

    def _telling(self, tell: Callable[[Scheduler, info.Served], dict[str, Any]]) -> Handler:
        async def handler(request: web.Request) -> web.Response:
            return json_reply(tell(self._scheduler, self._served))

        return handler


def _broken(results: list[Result]) -> web.Response | None:
    """A 500 where the model failed."""
    for result in results:
        if result.reason["type"] == "error":
            return json_reply({"error": {"message": result.reason["message"]}}, 500)
    return None


def _hand_over(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Result]
) -> Callable[[Result], None]:
    """A callback for another thread that settles `future` in its own loop."""

    def settle(result: Result) -> None:
        if not future.done():
            future.set_result(result)

    def hand_over(result: Result) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result)

    return hand_over
