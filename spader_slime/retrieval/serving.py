"""Run the search service: one process, or several behind one socket."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from spader_slime.errors import ConfigError, SpaderError
from spader_slime.retrieval.engines import open_index
from spader_slime.retrieval.lifetime import exit_with_parent
from spader_slime.retrieval.manifest import read_manifest

IMMEDIATE = 100_000  # passages up to which a query takes less than handing it to a thread
DRAIN_S = 30  # for calls under way when the service is told to end


@dataclass(frozen=True)
class ServeOptions:
    """How to serve.

    Attributes:
        index: folder of a complete index.
        port: 0 picks a free one.
        protocol: of `/retrieve`: `spader` or `search_r1`.
        rerank: cross-encoder, a name or folder; "" for none.
        workers: processes, at least 1.
        threads: that search in each worker; None: 0 for small tantivy indexes, else one for each
            core of the worker's share.
        die_with_parent: exit when the process that started this one is gone.
    """

    index: Path
    host: str = "127.0.0.1"
    port: int = 8000
    protocol: str = "spader"
    rerank: str = ""
    workers: int = 1
    threads: int | None = None
    die_with_parent: bool = False

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ConfigError("workers", self.workers, "at least 1")
        if self.threads is not None and self.threads < 0:
            raise ConfigError("threads", self.threads, "at least 0")
        if not 0 <= self.port <= 65_535:
            raise ConfigError("port", self.port, "0 to 65535")


def serve(options: ServeOptions) -> None:
    """Serve until SIGTERM or SIGINT; calls under way are finished. Prints the URL when bound.

    Raises:
        DataError: no complete index, or something it or the reranker needs is missing.
        SpaderError: the address can't be used; or workers keep dying.
    """
    read_manifest(options.index)
    if options.die_with_parent:
        exit_with_parent()
    if options.workers == 1:
        server = make_server(options)  # opened before the URL is told
        server.run(sockets=[_listen(options)])
        return
    from spader_slime.retrieval.workers import run_workers

    run_workers(options, _listen(options))


def make_server(options: ServeOptions) -> uvicorn.Server:
    """A server of this process over the index, not yet running."""
    from spader_slime.retrieval.metrics import Metrics  # reads its folder from the environment
    from spader_slime.retrieval.models import Reranker
    from spader_slime.retrieval.server import SearchApp
    from spader_slime.retrieval.work import Work

    metrics, backend = Metrics(), open_index(options.index)
    immediate = read_manifest(options.index)["backend"] == "tantivy" and len(backend) <= IMMEDIATE
    threads = options.threads
    if threads is None:
        threads = 0 if immediate else max(1, (os.cpu_count() or 1) // options.workers)
    reranker = Reranker(options.rerank, metrics.rerank_pairs.observe) if options.rerank else None
    app = SearchApp(Work(backend, threads, reranker), metrics, options.protocol)
    settings = uvicorn.Config(
        app,
        lifespan="off",
        access_log=False,
        log_level="warning",
        backlog=2048,
        timeout_graceful_shutdown=DRAIN_S,
    )
    return uvicorn.Server(settings)


def _listen(options: ServeOptions) -> socket.socket:
    try:
        listener = socket.create_server((options.host, options.port), backlog=2048)
    except OSError as error:
        raise SpaderError(f"can't listen on {options.host}:{options.port}: {error}") from error
    port = listener.getsockname()[1]
    print(f"search service: http://{options.host}:{port}/retrieve", flush=True)
    return listener
