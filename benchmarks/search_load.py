"""Load on a search service: clients that call one after the other, each on a connection of its own.

The clients are as cheap as can be (prepared bytes, bare sockets): they share the machine with what
they measure.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

QUERIES_PER_CALL = 3
ALL = 10**6  # characters: nothing is cut
ANSWER_S = 60


@dataclass(frozen=True)
class Load:
    """What callers saw: calls a second, milliseconds of a call; CPU milliseconds of a call."""

    rate: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float


def summary(seconds: Sequence[float], wall: float, cpu: float) -> Load:
    """Of the durations of all calls, and the time and CPU time that they took together."""
    p50, p99 = np.percentile(np.asarray(seconds) * 1e3, [50, 99])
    return Load(len(seconds) / wall, float(p50), float(p99), 1e3 * cpu / len(seconds))


def bodies(queries: Sequence[str], top_k: int) -> list[bytes]:
    """Requests of `QUERIES_PER_CALL` queries each, in SPADER's protocol."""
    groups = (queries[n : n + QUERIES_PER_CALL] for n in range(0, len(queries), QUERIES_PER_CALL))
    whole = [group for group in groups if len(group) == QUERIES_PER_CALL]
    return [
        json.dumps({"queries": list(group), "top_k": top_k, "max_chars": ALL}).encode()
        for group in whole
    ]


def head(length: int, path: str = "/retrieve") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()


class Connection:
    """A connection that is kept."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.address = (parts.hostname or "", parts.port or 80)
        self.socket = socket.create_connection(self.address, timeout=ANSWER_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, body: bytes, path: str = "/retrieve") -> tuple[int, bytes]:
        self.socket.sendall(head(len(body), path) + body)
        return self.answer()

    def answer(self) -> tuple[int, bytes]:
        """Status and body. Raises ConnectionError if the server hung up."""
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        lines = data[:end].lower().split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        pieces, missing = [data[end + 4 :]], length - (len(data) - end - 4)
        while missing > 0:
            pieces.append(self._more())
            missing -= len(pieces[-1])
        return int(data[9:12]), b"".join(pieces)

    def _more(self) -> bytes:
        piece = self.socket.recv(262_144)
        if not piece:
            raise ConnectionError("the server hung up")
        return piece

    def close(self) -> None:
        self.socket.close()


def checked(answer: tuple[int, bytes]) -> None:
    """Raises RuntimeError unless it is an answer to all queries of a call."""
    status, body = answer
    if status != 200 or len(json.loads(body)["result"]) != QUERIES_PER_CALL:
        raise RuntimeError(f"answered {status}: {body[:200]!r}")


def in_threads(
    work: Callable[[Iterator[int]], list[float]], count: int
) -> tuple[list[float], float]:
    """Seconds of every step of `count` threads that share one counter, and the wall time."""
    numbers, results, failed = itertools.count(), [], []

    def run() -> None:
        try:
            results.append(work(numbers))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = time.perf_counter() - began
    if failed:
        raise failed[0]
    return list(itertools.chain.from_iterable(results)), wall


def for_seconds(
    step: Callable[[int], object], seconds: float, numbers: Iterator[int]
) -> list[float]:
    """Call `step(next number)` until the time is over; seconds of each."""
    taken, end = [], time.perf_counter() + seconds
    while (before := time.perf_counter()) < end:
        step(next(numbers))
        taken.append(time.perf_counter() - before)
    return taken


def call_for(url: str, requests: Sequence[bytes], clients: int, seconds: float, pid: int) -> Load:
    """Load of `clients` clients at once on the service `pid`; CPU time is the service's.

    Raises:
        RuntimeError: an answer was none.
    """

    def client(numbers: Iterator[int]) -> list[float]:
        connection = Connection(url)
        checked(connection.post(requests[0]))

        def step(number: int) -> None:
            status, _ = connection.post(requests[number % len(requests)])
            if status != 200:
                raise RuntimeError(f"answered {status}")

        try:
            return for_seconds(step, seconds, numbers)
        finally:
            connection.close()

    before = cpu_seconds(pid)
    taken, wall = in_threads(client, clients)
    return summary(taken, wall, cpu_seconds(pid) - before)


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int | str = "self") -> dict[str, float]:
    """MB of a process: resident, of that its own (not pages of files), and the most ever."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {line.split(":")[0]: line.split()[1] for line in lines if line.endswith("kB")}
    names = {"resident": "VmRSS", "own": "RssAnon", "peak": "VmHWM"}
    return {name: int(found[key]) / 1e3 for name, key in names.items()}
