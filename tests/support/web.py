"""aiohttp applications on real loopback sockets, each in a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aiohttp import web

Server = TypeVar("Server", bound="LoopbackServer")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class LoopbackServer:
    """Serves `routes` ({"/path": handler}, any method) on 127.0.0.1 until `close()`."""

    def __init__(self, routes: dict[str, Handler]) -> None:
        self._loop = asyncio.new_event_loop()
        self._app = web.Application(client_max_size=2**30)
        for path, handler in routes.items():
            self._app.router.add_route("*", path, handler)
        ready = threading.Event()
        self._thread = threading.Thread(target=self._main, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait(10)

    def _main(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._runner = web.AppRunner(self._app, shutdown_timeout=0.1)
        self._loop.run_until_complete(self._runner.setup())
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        self._loop.run_until_complete(site.start())
        self.port: int = self._runner.addresses[0][1]
        ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._runner.cleanup())
        self._loop.run_until_complete(_drop_hanging())
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Run `function` on the server's own loop."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def close(self) -> None:
        """Stop serving; a second call does nothing."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def __enter__(self: Server) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


async def _drop_hanging() -> None:
    """End requests that nobody will answer."""
    hanging = asyncio.all_tasks() - {asyncio.current_task()}
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
