"""Work on many tensors at once in little memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Condition

LIMIT = 1 << 30  # bytes of all tensors in work; a larger one is in work alone
WORKERS = min(4, os.cpu_count() or 1)


class Room:
    """Lets tensors in while there is room for them."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit, self._used, self._changed = limit, 0, Condition()

    def enter(self, size: int) -> None:
        """Wait until `size` bytes fit, or nothing else is in."""
        with self._changed:
            self._changed.wait_for(lambda: not self._used or self._used + size <= self._limit)
            self._used += size

    def leave(self, size: int) -> None:
        """Make room again."""
        with self._changed:
            self._used -= size
            self._changed.notify_all()


def in_parallel(jobs: Iterable[tuple[int, Callable[[], None]]]) -> None:
    """Run (bytes of memory, function) pairs on `WORKERS` threads; the first error ends it, and so
    does Ctrl-C."""
    room = Room()

    def run(size: int, job: Callable[[], None]) -> None:
        room.enter(size)
        try:
            job()
        finally:
            room.leave(size)

    pool = ThreadPoolExecutor(WORKERS)
    try:
        futures = [pool.submit(run, size, job) for size, job in jobs]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
    finally:
        pool.shutdown(cancel_futures=True)
