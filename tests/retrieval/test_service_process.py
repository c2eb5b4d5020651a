"""`spader-slime serve` as a user starts it: pages, protocols, workers, drain."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from support.retrieval import call, fetch, metric, send_only, serving

from spader_slime import cli
from spader_slime.retrieval.child import ServerProcess
from spader_slime.retrieval.index import build_index
from spader_slime.retrieval.passages import Passage

CITIES = [Passage(f"City {n}", f"A city in Norway, number {n}.") for n in range(40)]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cities") / "index"
    build_index(CITIES, folder)
    return folder


@pytest.fixture(scope="module")
def service(index: Path) -> Iterator[ServerProcess]:
    """Two workers, two threads each, Search-R1's protocol."""
    options = ("--protocol", "search_r1", "--workers", "2", "--threads", "2")
    with serving(index, *options) as running:
        yield running


def test_the_protocol_option_changes_retrieve_only(service: ServerProcess) -> None:
    body = {"queries": ["norway", ""], "topk": 2, "return_scores": False}
    plain = call(service.url, body)
    assert plain == call(service.url, body, "/search_r1/retrieve")
    assert [len(row) for row in plain[1]["result"]] == [2, 0]
    assert set(plain[1]["result"][0][0]) == {"contents"}
    spader = call(service.url, body, "/spader/retrieve")[1]["result"]
    assert [set(row) for row in spader] == [{"query", "documents"}] * 2


def test_pages_explain_the_service(service: ServerProcess) -> None:
    status, page = fetch(service.url, "/docs")
    assert status == 200 and b"max_chars" in page
    assert b"http://" not in page and b"https://" not in page  # works without the internet
    described = json.loads(fetch(service.url, "/openapi.json")[1])
    for path in described["paths"]:
        assert fetch(service.url, path, "PUT")[0] == 405
    assert call(service.url, b"", "/docs")[0] == 405


def test_metrics_sum_over_the_workers(service: ServerProcess) -> None:
    path = '{path="/spader/retrieve",status="200"}'
    name = f"spader_search_requests_total{path}"
    queries = metric(service.url, "spader_search_queries_total")
    before, cut = metric(service.url, name), metric(service.url, "spader_search_cut_total")
    for _ in range(12):
        body = {"queries": ["norway", "city"], "max_chars": 100}
        assert call(service.url, body, "/spader/retrieve")[0] == 200
    call(service.url, b"{", "/spader/retrieve")
    assert metric(service.url, name) == before + 12
    assert metric(service.url, "spader_search_queries_total") == queries + 24
    assert metric(service.url, "spader_search_cut_total") == cut + 12
    assert metric(service.url, "spader_search_passages") == len(CITIES)
    assert metric(service.url, 'spader_search_requests_total{path="/spader/retrieve",status="400"')


def test_a_killed_worker_is_missed_by_nobody(service: ServerProcess) -> None:
    assert service.process is not None
    deadline = time.monotonic() + 60
    while len(workers := _workers(service)) < 2:  # one may still be starting
        assert time.monotonic() < deadline, "no second worker"
        time.sleep(0.05)
    workers[0].kill()
    while len({w.pid for w in _workers(service)} - {w.pid for w in workers}) < 1:
        assert time.monotonic() < deadline, "no new worker"
        time.sleep(0.05)
    assert call(service.url, {"queries": ["norway"]})[0] == 200


def _workers(service: ServerProcess) -> list[psutil.Process]:
    assert service.process is not None
    children = psutil.Process(service.process.pid).children()
    running = [c for c in children if c.status() != psutil.STATUS_ZOMBIE]
    return [c for c in running if any("spawn_main" in part for part in c.cmdline())]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_finishes_calls_under_way_and_takes_no_new_ones(index: Path, workers: str) -> None:
    with serving(index, "--workers", workers) as service:
        assert service.process is not None and fetch(service.url, "/health")[0] == 200
        body = json.dumps({"queries": ["norway"]}).encode()
        head = f"POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        parts = urlsplit(service.url)
        address = (parts.hostname or "", parts.port or 0)
        with socket.create_connection(address, timeout=60) as slow:
            slow.sendall(head.encode() + body[:5])
            while metric(service.url, "spader_search_in_flight") < 2:  # that one, and this
                time.sleep(0.02)
            os.kill(service.process.pid, signal.SIGTERM)
            _wait_until_refused(address)
            slow.sendall(body[5:])
            assert slow.recv(64).startswith(b"HTTP/1.1 200")
        assert service.process.wait(30) in (0, -signal.SIGTERM)


def _wait_until_refused(address: tuple[str, int]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            socket.create_connection(address, timeout=1).close()
        except OSError:
            return
        time.sleep(0.05)
    raise AssertionError("still listening")


def test_hanging_up_leaves_the_service_well(service: ServerProcess) -> None:
    for _ in range(20):
        send_only(service.url, {"queries": ["norway city"] * 64, "topk": 40}).close()
    assert call(service.url, {"queries": ["norway"]})[0] == 200
    deadline = time.monotonic() + 30
    while metric(service.url, "spader_search_in_flight") > 1:  # the one that asks
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_workers_that_can_not_start_end_the_service(index: Path) -> None:
    missing = str(index / "nothing")
    command = ["serve", "--index", str(index), "--port", "0", "--workers", "2", "--rerank", missing]
    done = subprocess.run(
        [sys.executable, "-m", "spader_slime.cli", *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == cli.USER_FAULT and "a worker could not start" in done.stderr


def test_options_out_of_range_are_one_line(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["--workers", "0"], ["--threads", "-1"], ["--port", "70000"]):
        assert cli.main(["serve", "--index", str(index), *wrong]) == cli.USER_FAULT
        assert capsys.readouterr().err.count("\n") == 1
