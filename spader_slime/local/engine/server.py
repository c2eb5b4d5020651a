"""The HTTP side of the engine."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from spader_slime.errors import EngineError
from spader_slime.local.engine.params import RequestError
from spader_slime.local.engine.replies import batch_reply, make_reply
from spader_slime.local.engine.scheduler import Scheduler
from spader_slime.local.engine.sequences import Result
from spader_slime.local.engine.wire import GenerateRequest, Limits, parse_generate

MAX_BODY_BYTES = 64 * 2**20


@dataclass
class Served:
    """What is being served, as the information routes tell it."""

    model: Path
    limits: Limits
    max_running: int
    architectures: list[str]


class Server:
    """Routes of SGLang's native protocol over a scheduler."""

    def __init__(self, scheduler: Scheduler, served: Served) -> None:
        self._scheduler, self._served = scheduler, served
        self._numbers = itertools.count()

    def app(self) -> web.Application:
        """The application, with a limit on the size of requests."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_errors_as_json])
        for path, handler in self._routes().items():
            app.router.add_route("*", path, handler)
        return app

    def _routes(self) -> dict[str, Callable[[web.Request], Awaitable[web.Response]]]:
        return {
            "/generate": self._generate,
            "/abort_request": self._abort,
            "/update_weights_from_disk": self._update_weights,
            "/flush_cache": self._flush,
            "/pause_generation": self._pause,
            "/continue_generation": self._continue,
            "/health": self._health,
            "/health_generate": self._health_generate,
            "/server_info": self._server_info,
            "/get_server_info": self._server_info,
            "/model_info": self._model_info,
            "/get_model_info": self._model_info,
            "/v1/loads": self._loads,
        }

    async def _generate(self, request: web.Request) -> web.Response:
        requests, batched = parse_generate(await _body(request), self._served.limits)
        results = await self._run(requests)
        failed = next((r.reason for r in results if r.reason["type"] == "error"), None)
        if failed is not None:
            return _json({"error": {"message": failed["message"]}}, 500)
        tokenizer = self._served.limits.tokenizer
        return _json(batch_reply([make_reply(r, tokenizer) for r in results], batched))

    async def _run(self, requests: list[GenerateRequest]) -> list[Result]:
        loop, waiting = asyncio.get_running_loop(), []
        for request in requests:
            future: asyncio.Future[Result] = loop.create_future()
            waiting.append(future)
            self._scheduler.submit(request, _hand_over(loop, future))
        try:
            return list(await asyncio.gather(*waiting))
        except asyncio.CancelledError:  # the client hung up
            for request in requests:
                self._scheduler.abort(request.rid)
            raise

    async def _abort(self, request: web.Request) -> web.Response:
        body = await _body(request)
        self._scheduler.abort(str(body.get("rid") or ""), bool(body.get("abort_all")))
        return _json({})

    async def _update_weights(self, request: web.Request) -> web.Response:
        body = await _body(request)
        folder, version = body.get("model_path"), body.get("weight_version")
        if not isinstance(folder, str):
            raise RequestError("'model_path' must be a folder on this machine")
        if body.get("abort_all_requests"):
            self._scheduler.abort("", everything=True)
        update = self._scheduler.update_weights(
            Path(folder), None if version is None else str(version)
        )
        try:
            await _result(update)
        except EngineError as error:
            return _json({"success": False, "message": str(error), "num_paused_requests": 0}, 400)
        message = f"weights of {folder}"
        return _json({"success": True, "message": message, "num_paused_requests": 0})

    async def _flush(self, request: web.Request) -> web.Response:
        await _result(self._scheduler.flush())
        return web.Response(text="Cache flushed.\n")

    async def _pause(self, request: web.Request) -> web.Response:
        if (await _body(request)).get("mode", "abort") == "abort":
            self._scheduler.abort("", everything=True)
        self._scheduler.pause(True)
        return _json({"status": "ok"})

    async def _continue(self, request: web.Request) -> web.Response:
        self._scheduler.pause(False)
        return _json({"status": "ok"})

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _health_generate(self, request: web.Request) -> web.Response:
        body = {"input_ids": [0], "sampling_params": {"max_new_tokens": 1, "temperature": 0}}
        body |= {"rid": f"HEALTH_CHECK_{next(self._numbers)}"}
        requests, _ = parse_generate(body, self._served.limits)
        await self._run(requests)
        return web.Response()

    async def _server_info(self, request: web.Request) -> web.Response:
        running, waiting = self._scheduler.loads
        served = self._served
        return _json(
            {
                "model_path": str(served.model),
                "served_model_name": str(served.model),
                "tp_size": 1,
                "dp_size": 1,
                "max_running_requests": served.max_running,
                "context_length": served.limits.context,
                "weight_version": self._scheduler.version,
                "version": "spader_slime",
                "internal_states": [{"num_running_reqs": running, "num_waiting_reqs": waiting}],
            }
        )

    async def _model_info(self, request: web.Request) -> web.Response:
        served = self._served
        return _json(
            {
                "model_path": str(served.model),
                "tokenizer_path": str(served.model),
                "is_generation": True,
                "architectures": served.architectures,
                "weight_version": self._scheduler.version,
                "vocab_size": served.limits.vocab,
            }
        )

    async def _loads(self, request: web.Request) -> web.Response:
        running, waiting = self._scheduler.loads
        load = {"dp_rank": 0, "num_reqs": running + waiting}
        load |= {"num_running_reqs": running, "num_waiting_reqs": waiting}
        total = {"total_running_reqs": running, "total_waiting_reqs": waiting}
        return _json({"dp_rank_count": 1, "loads": [load], "aggregate": total})


def _hand_over(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Result]
) -> Callable[[Result], None]:
    def settle(result: Result) -> None:
        if not future.done():
            future.set_result(result)

    return lambda result: _call_soon(loop, settle, result)


def _call_soon(loop: asyncio.AbstractEventLoop, function: Any, result: Result) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(function, result)


async def _result(future: Future[None]) -> None:
    await asyncio.wrap_future(future)


async def _body(request: web.Request) -> dict[str, Any]:
    raw = await request.read()
    try:
        body = orjson.loads(raw or b"{}")
    except ValueError as error:
        raise RequestError(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RequestError("the body must be a JSON object")
    return body


@web.middleware
async def _errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except RequestError as error:
        return _json({"error": {"message": str(error)}}, 400)


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")
