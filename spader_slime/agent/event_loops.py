"""Work beside, and waiting in, several event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

LARGE = 200_000  # characters or tokens that take long enough to hold up other trajectories


class LoopSemaphore:
    """An asyncio semaphore of `places` for every event loop that asks."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._found: WeakKeyDictionary[Any, asyncio.Semaphore] = WeakKeyDictionary()

    def _here(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        return self._found.setdefault(loop, asyncio.Semaphore(self._places))

    async def __aenter__(self) -> None:
        await self._here().acquire()

    async def __aexit__(self, *error: object) -> None:
        self._here().release()


async def off_loop(size: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call `function`, in a thread when `size` (characters or tokens to go through) is large."""
    if size < LARGE:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)
