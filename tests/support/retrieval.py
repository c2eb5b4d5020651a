"""Raw HTTP for the tests of the service."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from spader_slime.retrieval.child import ServerProcess

WAIT_S = 30


def call(url: str, body: Any, path: str = "/retrieve", method: str = "POST") -> tuple[int, Any]:
    """Status and JSON of an answer; `body` is sent as JSON unless it is bytes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, answer = fetch(url, path, method, data)
    return status, json.loads(answer or b"null")


def fetch(url: str, path: str, method: str = "GET", data: bytes = b"") -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request(method, path, data, {"content-type": "application/json"})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def metric(url: str, name: str) -> float:
    """Sum of all samples whose line starts with `name`."""
    lines = fetch(url, "/metrics")[1].decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def send_only(url: str, body: Any) -> socket.socket:
    """A connection on which a whole request was sent and nothing read."""
    parts = urlsplit(url)
    data = json.dumps(body).encode()
    head = f"POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
    connection = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=60)
    connection.sendall(head.encode() + data)
    return connection


def serving(index: Path, *more: str) -> ServerProcess:
    """`spader-slime serve` on a free port, with further options."""
    options = ["serve", "--index", str(index), "--port", "0", *more]
    return ServerProcess("spader_slime.cli", options, timeout_s=120)


class ThreadedServer:
    """A server that is not yet running, run in a thread of this process, on a free port."""

    def __init__(self, server: uvicorn.Server) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/retrieve"
        self._server = server
        self._thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        self._thread.start()
        wait_until(lambda: server.started)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(WAIT_S)


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.01)
