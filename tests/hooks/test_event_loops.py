"""One object, several event loops, each in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from spader_slime.agent.event_loops import LARGE, LoopSemaphore, off_loop


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
