"""Several server processes that accept from one socket."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from types import FrameType
from typing import cast

from spader_slime.errors import SpaderError
from spader_slime.retrieval.lifetime import exit_with_parent
from spader_slime.retrieval.metrics import SHARED
from spader_slime.retrieval.serving import ServeOptions, make_server

EARLY_KILLS = 3  # workers killed by a signal before they were ready, and still replaced


def run_workers(options: ServeOptions, listener: socket.socket) -> None:
    """Keep `options.workers` processes running until SIGTERM or SIGINT, which drains them.

    A worker that dies is replaced; the connections it had are lost.

    Raises:
        SpaderError: a worker ended before it was ready, or several were killed before.
    """
    with tempfile.TemporaryDirectory(prefix="search-metrics-") as folder:
        os.environ[SHARED] = folder  # the workers inherit it
        _Supervisor(options, listener).run()


class _Supervisor:
    def __init__(self, options: ServeOptions, listener: socket.socket) -> None:
        self._options, self._listener = options, listener
        self._context = get_context("spawn")
        self._workers: dict[int, tuple[BaseProcess, Event]] = {}  # by sentinel; it got ready
        self._ending, self._early = False, 0

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        try:
            for _ in range(self._options.workers):
                self._start()
            while self._workers:
                for sentinel in connection.wait(list(self._workers)):
                    self._ended(*self._workers.pop(cast(int, sentinel)))
        finally:
            self._end()
            for process, _ in self._workers.values():
                process.join()

    def _start(self) -> None:
        ready = self._context.Event()
        arguments = (self._options, self._listener, ready)
        process = self._context.Process(target=_work, args=arguments)
        process.start()
        self._workers[process.sentinel] = process, ready
        if self._ending:  # told so meanwhile
            process.terminate()

    def _ended(self, process: BaseProcess, ready: Event) -> None:
        process.join()
        if self._ending:
            return
        if not ready.is_set():
            self._early += 1
            if (process.exitcode or 0) >= 0 or self._early > EARLY_KILLS:
                raise SpaderError(f"a worker could not start (exit code {process.exitcode})")
        self._start()

    def _end(self, number: int = 0, frame: FrameType | None = None) -> None:
        self._ending = True
        self._listener.close()  # or connections would wait here for nobody
        for process, _ in list(self._workers.values()):
            process.terminate()


def _work(options: ServeOptions, listener: socket.socket, ready: Event) -> None:
    exit_with_parent()
    try:
        server = make_server(options)
    except SpaderError as error:
        sys.exit(f"search service: {error}")
    ready.set()
    server.run(sockets=[listener])
