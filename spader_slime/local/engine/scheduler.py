"""Continuous batching: one thread that owns the model; everything else talks to it by messages."""

from __future__ import annotations

import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch

from spader_slime.errors import EngineError
from spader_slime.local.engine.jobs import Job, Result
from spader_slime.local.engine.runner import Runner
from spader_slime.local.engine.steps import Steps
from spader_slime.local.engine.stops import Reason
from spader_slime.local.engine.wire import GenerateRequest

_QUEUED: Reason = {"type": "abort", "message": "Abort in waiting queue"}
_STARTED: Reason = {"type": "abort", "message": "Aborted"}


class Scheduler:
    """Runs requests on `runner`, as many at once as its cache has rows.

    New weights wait until the running sequences are complete, and sequences that are still in the
    queue wait for the weights: no sequence is sampled by two policies. Only while generation is
    paused do weights come in at once; sequences held in the pause then compute their keys and
    values anew and go on with the new weights. This is how SGLang does it.
    """

    def __init__(self, runner: Runner, end_ids: frozenset[int], tokenizer: Any) -> None:
        self._runner = runner
        self._steps = Steps(runner, end_ids, tokenizer)
        self._waiting: deque[Job] = deque()
        self._inbox: deque[Callable[[], None]] = deque()
        self._updates: deque[tuple[Path, str | None, Future[None]]] = deque()
        self._wake = threading.Condition()
        self._submitted = self._finished = 0
        self._paused = self._stopped = False
        self._failure: Reason | None = None
        self._thread = threading.Thread(target=self._main, daemon=True, name="scheduler")

    @property
    def version(self) -> str:
        """Of the weights."""
        return self._steps.version

    @property
    def healthy(self) -> bool:
        """Whether the thread is alive."""
        return self._failure is None

    @property
    def loads(self) -> tuple[int, int, int]:
        """Running sequences, waiting ones, and tokens in the cache."""
        running, unfinished = len(self._steps.jobs), self._submitted - self._finished
        return running, max(0, unfinished - running), self._steps.slots.cached

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Abort everything and end the thread."""
        self.abort(lambda rid: True)
        self._post(self._end)
        self._thread.join()

    def submit(self, request: GenerateRequest, done: Callable[[Result], None]) -> None:
        """Queue a request; `done` is called in the scheduler's thread."""
        job = Job(request, lambda result: self._count(done, result))
        self._submitted += 1
        self._post(lambda: self._waiting.append(job))

    def abort(self, meant: Callable[[str], bool]) -> None:
        """End all requests whose id is `meant`, with what they have."""
        self._post(lambda: self._abort(meant))

    def pause(self, paused: bool) -> None:
        """Hold all sequences where they are, or let them go on."""
        self._post(lambda: setattr(self, "_paused", paused))

    def update_weights(self, folder: Path, version: str | None) -> Future[None]:
        """Take the weights of `folder`; the cache is flushed with it.

        Args:
            version: of the weights; None counts on.

        The future raises `EngineError` where they can't be taken; the old ones stay then.
        """
        future: Future[None] = Future()
        self._post(lambda: self._updates.append((folder, version, future)))
        return future

    def flush(self) -> Future[bool]:
        """Forget all cached keys and values; refused (False) while there are requests."""
        future: Future[bool] = Future()
        self._post(lambda: future.set_result(self._flush()))
        return future

    def _post(self, message: Callable[[], None]) -> None:
        with self._wake:
            self._inbox.append(message)
            self._wake.notify()

    def _main(self) -> None:
        try:
            with torch.inference_mode():
                while not self._stopped:
                    self._turn()
        except Exception as error:  # nobody else would ever answer the requests
            traceback.print_exc(file=sys.stderr)
            self._failure = {"type": "error", "message": f"the engine failed: {error!r}"}
            while not self._stopped:
                self._clear(self._failure)
                self._read_inbox()

    def _turn(self) -> None:
        self._read_inbox()
        while self._updates and (self._paused or not self._steps.jobs):
            self._update(*self._updates.popleft())
        if self._paused or self._stopped:
            return
        while self._waiting and not self._updates and not self._steps.slots.full:
            self._steps.enter(self._waiting.popleft())
        if self._steps.jobs:
            self._steps.step()

    def _read_inbox(self) -> None:
        with self._wake:
            while not self._inbox and not self._busy():
                self._wake.wait()
            messages, self._inbox = self._inbox, deque()
        for message in messages:
            message()

    def _busy(self) -> bool:
        jobs, updates = bool(self._steps.jobs), bool(self._updates)
        going = (jobs or bool(self._waiting)) and not self._paused
        return self._failure is None and (going or (updates and not jobs))

    def _update(self, folder: Path, version: str | None, future: Future[None]) -> None:
        try:
            self._runner.load_weights(folder)
        except EngineError as error:
            return future.set_exception(error)
        self._steps.restart()
        number = int(self.version) + 1 if self.version.isdigit() else 1
        self._steps.version = str(number) if version is None else version
        return future.set_result(None)

    def _flush(self) -> bool:
        idle = not self._steps.jobs and not self._waiting
        if idle:
            self._steps.restart()
        return idle

    def _abort(self, meant: Callable[[str], bool]) -> None:
        running = [row for row, job in self._steps.jobs.items() if meant(job.request.rid)]
        self._steps.leave(running, _STARTED)
        waiting, self._waiting = self._waiting, deque()
        for job in waiting:
            if meant(job.request.rid):
                job.finish([], [], _QUEUED, self.version)
            else:
                self._waiting.append(job)

    def _clear(self, reason: Reason) -> None:
        self._steps.leave(list(self._steps.jobs), reason)
        while self._waiting:
            self._waiting.popleft().finish([], [], reason, self.version)
        while self._updates:
            self._updates.popleft()[2].set_exception(EngineError(str(reason["message"])))

    def _count(self, done: Callable[[Result], None], result: Result) -> None:
        self._finished += 1
        done(result)

    def _end(self) -> None:
        self._stopped = True
