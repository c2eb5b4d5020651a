"""One object, several event loops, each in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.episodes import GOLD, episode

from spader_slime import adapter, hooks, record
from spader_slime.agent.event_loops import LARGE, LoopSemaphore, off_loop
from spader_slime.local.sample import Sample


async def crowd(places: LoopSemaphore) -> int:
    """The most tasks of this loop that were in at once."""
    inside = most = 0

    async def visit() -> None:
        nonlocal inside, most
        async with places:
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.001)
            inside -= 1

    await asyncio.gather(*(visit() for _ in range(20)))
    return most


def test_every_loop_has_its_own_places() -> None:
    places = LoopSemaphore(3)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda _: asyncio.run(crowd(places)), range(2))) == [3, 3]


async def test_only_large_work_leaves_the_loop() -> None:
    here = threading.get_ident()
    assert await off_loop(LARGE - 1, threading.get_ident) == here
    assert await off_loop(LARGE, threading.get_ident) != here


@pytest.mark.parametrize("size", [1, LARGE])
async def test_grading_much_text_leaves_the_loop(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reward hook, on peers that were each shown documents of so many characters."""
    threads: list[int] = []

    def watched(*inputs: Any) -> Any:
        threads.append(threading.get_ident())
        return graded(*inputs)

    graded = hooks.assign_credit
    monkeypatch.setattr(hooks, "assign_credit", watched)
    adapter.remember_rollout(0)
    group = [Sample(prompt="q", label=GOLD, metadata={}) for _ in range(2)]
    for sample in group:
        made = episode(["Oslo" * (size // 4 + 1)], answer=["Oslo"])
        record.close_episode(sample, made, evaluation=False)
    rewards = await hooks.reward(Namespace(spader={}), group)
    assert len(rewards) == 2
    assert (threads[0] == threading.get_ident()) is (size == 1)
