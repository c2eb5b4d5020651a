"""An engine and a search service that answer at once, each in a process of its own.

Every request gets the same bytes back, so that next to nothing is spent on the servers' side.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import orjson


class _Instant(asyncio.Protocol):
    """Enough of HTTP/1.1: waits for the whole request, then sends the prepared reply."""

    def __init__(self, reply: bytes) -> None:
        self._reply, self._received = reply, bytearray()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, _ = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(self._received) >= len(head) + 4 + length:
            self._received.clear()  # clients send the next request after the reply
            self._transport.write(self._reply)


def _serve(ready: Connection, body: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"

    async def run() -> None:
        loop = asyncio.get_running_loop()
        reply = head.encode() + b"\r\n\r\n" + body
        server = await loop.create_server(lambda: _Instant(reply), "127.0.0.1", 0, backlog=4096)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def serving(*replies: Any) -> Iterator[list[int]]:
    """One server for each reply (anything JSON); their ports."""
    context = multiprocessing.get_context("spawn")
    processes, ports = [], []
    for reply in replies:
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, orjson.dumps(reply)), daemon=True)
        process.start()
        processes.append(process)
        ports.append(here.recv())
    try:
        yield ports
    finally:
        for process in processes:
            process.terminate()
            process.join()
