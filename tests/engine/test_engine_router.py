"""Two engines behind the real sglang-router process."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.engines import Client, log_prob_gap, prompt, request, serving

pytest.importorskip("sglang_router")


@pytest.fixture
def engines(folders: list[Path]) -> Iterator[list[Client]]:
    with ExitStack() as stack:
        yield [stack.enter_context(serving(folders[0], 16, 256)) for _ in range(2)]


@pytest.fixture
def router(engines: list[Client], tmp_path: Path) -> Iterator[Client]:
    port, metrics = free_port(), free_port()
    command = [sys.executable, "-m", "sglang_router.launch_router", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--prometheus-port", str(metrics)]
    command += ["--policy", "round_robin", "--worker-startup-check-interval", "1"]
    command += ["--worker-urls", *(engine.url for engine in engines)]
    log = (tmp_path / "log").open("w")
    with log, subprocess.Popen(command, stdout=log, stderr=log) as p:
        try:
            client = Client(f"http://127.0.0.1:{port}")
            await_workers(client, p, tmp_path / "log")
            yield client
        finally:
            p.terminate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def await_workers(client: Client, process: subprocess.Popen[Any], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            workers = client.ok("/workers")["workers"]
        except OSError:
            workers = []
        if len([worker for worker in workers if worker["is_healthy"]]) == 2:
            return
        time.sleep(0.1)
    pytest.fail(f"the router found no workers: {log.read_text()[-3000:]}")


def test_through_the_router(router: Client, engines: list[Client], model: Any) -> None:
    prompts = [prompt(10 + i, i) for i in range(24)]
    replies = router.many([request(p, max_new_tokens=8) for p in prompts])
    for ids, reply in zip(prompts, replies, strict=True):
        assert log_prob_gap(model, ids, reply) < 1e-5
    for engine in engines:
        assert engine.ok("/v1/loads")["loads"][0]["num_used_tokens"] > 100  # both had their share
    status, refused = router.call("/generate", request(prompts[0], max_new_tokens=250))
    assert status == 400 and "context" in str(refused)
    assert router.ok("/get_model_info")["is_generation"] is True
