"""Work of many callers, done together: what a neural model needs to be busy."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """Hands the items of all waiting callers to a function at once.

    While a function is busy callers pile up, and the next batch takes as many as fit: no timer.

    Args:
        functions: from a list of items to as many results; each runs in a thread of its own (one
            for each device).
        most: items of a batch; a caller with more gets a batch of its own.
        on_batch: told the size of every batch.
    """

    def __init__(
        self,
        functions: Sequence[Callable[[list[Item]], Sequence[Result]]],
        most: int,
        on_batch: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._most, self.on_batch = most, on_batch
        self._jobs: queue.SimpleQueue[tuple[list[Item], Future[list[Result]]]] = queue.SimpleQueue()
        for function in functions:
            threading.Thread(target=self._run, args=(function,), daemon=True).start()

    def submit(self, items: Sequence[Item]) -> Future[list[Result]]:
        """Results for the items, later. Cancel the future if nobody waits any more."""
        future: Future[list[Result]] = Future()
        self._jobs.put((list(items), future))
        return future

    def _run(self, function: Callable[[list[Item]], Sequence[Result]]) -> None:
        left: Any = None
        while True:
            batch, left = self._gather(left or self._jobs.get())
            wanted = [job for job in batch if job[1].set_running_or_notify_cancel()]
            if wanted:
                self._answer(function, wanted)

    def _gather(self, first: Any) -> tuple[list[Any], Any]:
        """Jobs for one batch, and the one that no longer fits."""
        batch, size = [first], len(first[0])
        while size < self._most:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            size += len(job[0])
            if size > self._most:
                return batch, job
            batch.append(job)
        return batch, None

    def _answer(self, function: Callable[[list[Item]], Sequence[Result]], jobs: list[Any]) -> None:
        items = [item for some, _ in jobs for item in some]
        self.on_batch(len(items))
        try:
            results = list(function(items))
        except Exception as error:  # whatever it was: every caller must hear of it
            for _, future in jobs:
                future.set_exception(error)
            return
        at = 0
        for some, future in jobs:
            future.set_result(results[at : at + len(some)])
            at += len(some)
