"""Callers that hang up: what they asked for ends, or never begins."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest
import uvicorn
from support.retrieval import WAIT_S, ThreadedServer, call, metric, send_only, wait_until

from spader_slime.retrieval.backend import GivenUpError, one_by_one
from spader_slime.retrieval.metrics import Metrics
from spader_slime.retrieval.passages import Hit
from spader_slime.retrieval.server import SearchApp
from spader_slime.retrieval.work import Work


class HeldBackend:
    """One hit per query; a query "held" waits until it is let go."""

    def __init__(self) -> None:
        self.searched: list[str] = []
        self.go, self.entered = threading.Semaphore(0), threading.Semaphore(0)

    def __len__(self) -> int:
        return 1

    def search(self, query: str, limit: int) -> list[Hit]:
        self.searched.append(query)
        if query == "held":
            self.entered.release()
            assert self.go.acquire(timeout=WAIT_S)
        return [Hit("t", query, 1.0)]

    def search_all(
        self, queries: Sequence[str], limit: int, given_up: Callable[[], bool]
    ) -> list[list[Hit]]:
        return one_by_one(self, queries, limit, given_up)


class Running(ThreadedServer):
    """The application on a real socket, one searching thread."""

    def __init__(self) -> None:
        self.backend = HeldBackend()
        app = SearchApp(Work(self.backend, threads=1), Metrics())
        super().__init__(uvicorn.Server(uvicorn.Config(app, log_level="critical")))

    def stop(self) -> None:
        self.backend.go.release(100)
        super().stop()


@pytest.fixture
def running() -> Iterator[Running]:
    service = Running()
    yield service
    service.stop()


def test_searches_of_a_caller_that_hung_up_end(running: Running) -> None:
    impatient = send_only(running.url, {"queries": ["held", "second", "third"]})
    assert running.backend.entered.acquire(timeout=WAIT_S)
    waiting = send_only(running.url, {"queries": ["never begun"]})
    wait_until(lambda: metric(running.url, "spader_search_in_flight") == 3)
    impatient.close()
    waiting.close()
    gone = 'spader_search_requests_total{path="/retrieve",status="499"}'
    wait_until(lambda: metric(running.url, gone) == 2)
    running.backend.go.release()
    assert call(running.url, {"queries": ["patient"]})[0] == 200
    assert running.backend.searched == ["held", "patient"]
    assert metric(running.url, "spader_search_in_flight") == 1


def test_a_caller_that_hangs_up_within_its_body_is_counted(running: Running) -> None:
    half = send_only(running.url, {"queries": []})
    assert half.recv(65536)  # answered: what follows is a request of its own
    half.sendall(b"POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{")
    wait_until(lambda: metric(running.url, "spader_search_in_flight") == 2)
    half.close()
    gone = 'spader_search_requests_total{path="/retrieve",status="499"}'
    wait_until(lambda: metric(running.url, gone) == 1)


def test_one_by_one_stops_between_queries() -> None:
    backend, left = HeldBackend(), iter([False, False, True])
    with pytest.raises(GivenUpError):
        one_by_one(backend, ["a", "b", "c"], 5, lambda: next(left))
    assert backend.searched == ["a", "b"]
