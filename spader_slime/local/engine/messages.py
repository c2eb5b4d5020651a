"""JSON bodies in and out, and refusals as SGLang words them: {"error": {"message": ...}}."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web

from spader_slime.local.engine.params import RequestError


async def read_body(request: web.Request) -> dict[str, Any]:
    """The JSON object in the body; an empty body is an empty object.

    Raises:
        RequestError: it is not a JSON object.
    """
    raw = await request.read()
    try:
        body = orjson.loads(raw or b"{}")
    except ValueError as error:
        raise RequestError(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RequestError("the body must be a JSON object")
    return body


def json_reply(value: Any, status: int = 200) -> web.Response:
    """`value` as JSON."""
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")


@web.middleware
async def refused_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Turns `RequestError` into a 400, and words what aiohttp refuses (404, 413) the same way."""
    try:
        return await handler(request)
    except RequestError as error:
        return json_reply({"error": {"message": str(error)}}, 400)
    except web.HTTPException as error:
        return json_reply({"error": {"message": error.text or error.reason}}, error.status)
