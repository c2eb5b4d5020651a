"""JSON over HTTP: one aiohttp session per client, size limits, bounded retries."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

import aiohttp

from spader_slime.errors import ConfigError

T = TypeVar("T")

JSON = {"Content-Type": "application/json"}
CONNECT_S = 10.0  # to reach the server, within the call's own timeout
MAX_BACKOFF_S = 10.0
_EXCERPT_BYTES = 300


def never() -> bool:
    """A `give_up` that never does."""
    return False


class HttpFault(Exception):
    """A call that failed.

    Attributes:
        kind: one of `errors.SEARCH_ERROR_KINDS`.
        transient: trying again may help.
        status: the HTTP status of kind "status".
    """

    def __init__(self, kind: str, message: str, transient: bool, status: int | None = None) -> None:
        super().__init__(message)
        self.kind, self.transient, self.status = kind, transient, status


class HttpClient:
    """Posts bodies and reads replies of limited size over kept-alive connections.

    The session belongs to the running event loop and is made on the first call; in another loop a
    new one is made.

    Args:
        busy: statuses below 500 of a server that may take the same call later.
    """

    def __init__(self, busy: Collection[int] = ()) -> None:
        self._busy = busy
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        timeout_s: float,
        limit: int,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The body of the reply, at most `limit` bytes (more are never read).

        Raises:
            HttpFault: no connection, no reply in time, a status other than 2xx, a reply that is
                not HTTP, or one that is too large.
        """
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(CONNECT_S, timeout_s))
        try:
            async with self._here().post(
                url,
                data=body,
                headers={**JSON, **(headers or {})},
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                await self._check_status(url, response)
                return await _read(url, response, limit)
        except asyncio.TimeoutError as error:
            raise HttpFault("timeout", f"{url} took more than {timeout_s:g} s", True) from error
        except (aiohttp.ClientPayloadError, aiohttp.ClientResponseError) as error:
            raise HttpFault("malformed", f"{url} broke off its reply: {error}", True) from error
        except (aiohttp.ClientError, OSError) as error:
            raise HttpFault("connection", f"{url} can't be reached: {error}", True) from error

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _check_status(self, url: str, response: aiohttp.ClientResponse) -> None:
        status = response.status
        if 200 <= status < 300:
            return
        text = (await response.content.read(_EXCERPT_BYTES)).decode("utf-8", "replace").strip()
        transient = status >= 500 or status in self._busy
        raise HttpFault("status", f"{url} answered {status}: {text}", transient, status)

    def _here(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:
            self._loop = loop
            connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300)
            self._session = aiohttp.ClientSession(connector=connector)
        return self._session


def check_urls(field: str, urls: Sequence[str]) -> None:
    """That there are addresses, all of http or https.

    Raises:
        ConfigError: names `field`.
    """
    if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
        raise ConfigError(field, urls, "addresses such as http://host:port")


async def _read(url: str, response: aiohttp.ClientResponse, limit: int) -> bytes:
    parts, size = [], response.content_length or 0
    if size <= limit:
        size = 0
        async for part in response.content.iter_any():
            parts.append(part)
            size += len(part)
            if size > limit:
                break
    if size > limit:
        response.close()  # the rest is not read
        raise HttpFault("oversized", f"{url} sent more than {limit} bytes", False)
    return b"".join(parts)


async def with_retries(
    attempt: Callable[[int], Awaitable[T]],
    retries: int,
    backoff_s: float,
    give_up: Callable[[], bool] = never,
) -> T:
    """`attempt(0)`, and after transient faults `attempt(1)` to `attempt(retries)`.

    Waits grow by doubling up to `MAX_BACKOFF_S`, each between half and all of it at random.

    Raises:
        HttpFault: the last one, or the first that is not transient, or when `give_up()` says so.
    """
    number = 0
    while True:
        try:
            return await attempt(number)
        except HttpFault as fault:
            if not fault.transient or number >= retries or give_up():
                raise
            pause = min(backoff_s * 2**number, MAX_BACKOFF_S)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            if give_up():
                raise
        number += 1
