"""The backends by name: how each is filled and opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spader_slime.errors import ConfigError
from spader_slime.retrieval.backend import Backend, Writer
from spader_slime.retrieval.dense import FLAT, DenseBackend, DenseWriter
from spader_slime.retrieval.hybrid import HybridBackend, HybridWriter
from spader_slime.retrieval.index import TantivyBackend, TantivyWriter
from spader_slime.retrieval.lucene import LuceneBackend, LuceneWriter
from spader_slime.retrieval.manifest import read_manifest
from spader_slime.retrieval.models import EncoderSettings

OPENERS: dict[str, Callable[[Path], Backend]] = {
    "tantivy": TantivyBackend,
    "lucene": LuceneBackend,
    "dense": DenseBackend,
    "hybrid": HybridBackend,
}
NEURAL = ("dense", "hybrid")


@dataclass(frozen=True)
class BuildSettings:
    """How to fill an index.

    Attributes:
        backend: a key of `OPENERS`.
        threads: that write the word index; more than one gives up the corpus order of equal
            scores.
        heap_mb: memory of each for passages not yet written, in MB.
        encoder: for `NEURAL` backends.
        factory: faiss's description of the vector index.
    """

    backend: str = "tantivy"
    threads: int = 1
    heap_mb: int = 512
    encoder: EncoderSettings | None = None
    factory: str = FLAT

    def __post_init__(self) -> None:
        if self.backend not in OPENERS:
            raise ConfigError("backend", self.backend, f"one of {', '.join(OPENERS)}")
        if self.backend in NEURAL and self.encoder is None:
            raise ConfigError("encoder", None, f"a model, for the {self.backend} backend")
        if self.threads < 1:
            raise ConfigError("threads", self.threads, "at least 1")
        if not 16 <= self.heap_mb <= 4000:  # tantivy's own limits
            raise ConfigError("heap_mb", self.heap_mb, "16 to 4000")

    def lasting(self) -> dict[str, Any]:
        """What the finished index depends on."""
        if self.encoder is None or self.backend not in NEURAL:
            return {}
        return {"encoder": asdict(self.encoder), "factory": self.factory}

    def writer(self, folder: Path) -> Writer:
        """What fills an index in `folder`."""
        return _WRITERS[self.backend](self, folder)


def _tantivy(settings: BuildSettings, folder: Path) -> TantivyWriter:
    return TantivyWriter(folder, settings.heap_mb * 1_000_000, settings.threads)


def _lucene(settings: BuildSettings, folder: Path) -> LuceneWriter:
    return LuceneWriter(folder, settings.threads)


def _dense(settings: BuildSettings, folder: Path) -> DenseWriter:
    assert settings.encoder is not None
    return DenseWriter(folder, settings.encoder, settings.factory)


def _hybrid(settings: BuildSettings, folder: Path) -> HybridWriter:
    return HybridWriter(
        folder,
        lambda inside: _tantivy(settings, inside),
        lambda inside: _dense(settings, inside),
        settings.lasting(),
    )


_WRITERS: dict[str, Callable[[BuildSettings, Path], Writer]] = {
    "tantivy": _tantivy,
    "lucene": _lucene,
    "dense": _dense,
    "hybrid": _hybrid,
}


def open_index(folder: Path) -> Backend:
    """The backend of a complete index.

    Raises:
        DataError: there is none in `folder`, or a package it needs is missing.
    """
    return OPENERS[read_manifest(folder)["backend"]](folder)
