"""Prometheus metrics of the service; with several workers, the sum over them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from spader_slime.retrieval.budget import Shown

SHARED = "PROMETHEUS_MULTIPROC_DIR"  # folder where workers keep their numbers; read at import
CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 4, 16, 32, 64, 128, 256, 512, 1024, 4096)
_PID = re.compile(r"_(\d+)\.db$")


class Metrics:
    """The numbers of one worker process. `docs/search.md` lists them."""

    def __init__(self) -> None:
        own = self._registry = CollectorRegistry()
        self.requests = Counter(_name("requests"), "Requests", ["path", "status"], registry=own)
        self._seconds = Histogram(
            _name("seconds"), "From a body read to its answer", buckets=_SECONDS, registry=own
        )
        self._queries = Counter(_name("queries"), "Queries answered", registry=own)
        self._documents = Counter(_name("documents"), "Documents returned", registry=own)
        self._cut = Counter(_name("cut"), "Answers cut to max_chars", registry=own)
        self.in_flight = Gauge(
            _name("in_flight"), "Being answered", multiprocess_mode="livesum", registry=own
        )
        self.passages = Gauge(_name("passages"), "Passages", multiprocess_mode="max", registry=own)
        self.rerank_pairs = Histogram(
            _name("rerank_batch_pairs"), "Pairs in a batch", buckets=_SIZES, registry=own
        )

    def answered(self, shown: Shown, seconds: float) -> None:
        """Count one answered search."""
        self._seconds.observe(seconds)
        self._queries.inc(len(shown.hits))
        self._documents.inc(sum(map(len, shown.hits)))
        if shown.note:
            self._cut.inc()

    def text(self) -> bytes:
        """Everything, in Prometheus's text format."""
        folder = os.environ.get(SHARED)
        if not folder:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        _forget_dead(Path(folder))
        MultiProcessCollector(registry)
        return generate_latest(registry)


def _name(short: str) -> str:
    return f"spader_search_{short}"


def _forget_dead(folder: Path) -> None:
    """What a worker that died had in flight is in flight no more; its counts stay."""
    for file in folder.glob("gauge_live*.db"):
        found = _PID.search(file.name)
        if found and not Path(f"/proc/{found[1]}").exists():
            mark_process_dead(int(found[1]), str(folder))
