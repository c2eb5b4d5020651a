"""Requests that are held in an engine while its generation is paused."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from support.engines import Client, prompt

ENDLESS = {"max_new_tokens": 240, "ignore_eos": True, "sampling_seed": 1}


def running(client: Client) -> int:
    return int(client.ok("/v1/loads?include=core")["loads"][0]["num_running_reqs"])


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def start(pool: ThreadPoolExecutor, client: Client, count: int, **fields: Any) -> list[Future[Any]]:
    """Endless requests, held: generation must be paused."""
    ids = [prompt(8, i) for i in range(count)]
    futures = [
        pool.submit(client.generate, p, _rid=f"group{i}-", **{**ENDLESS, **fields})
        for i, p in enumerate(ids)
    ]
    until(lambda: client.ok("/v1/loads")["aggregate"]["total_reqs"] >= count)
    return futures


def some_steps(client: Client) -> None:
    """Go on until sequences have grown, then hold again."""
    before = client.ok("/v1/loads")["loads"][0]["num_used_tokens"]
    client.ok("/continue_generation", {})
    until(lambda: client.ok("/v1/loads")["loads"][0]["num_used_tokens"] > before + 60)
    client.ok("/pause_generation", {"mode": "in_place"})
