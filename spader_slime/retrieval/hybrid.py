"""Optional backend: words (tantivy) and vectors (dense), fused by reciprocal rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spader_slime.retrieval.backend import Backend
from spader_slime.retrieval.dense import DenseBackend, DenseWriter
from spader_slime.retrieval.index import TantivyBackend, TantivyWriter
from spader_slime.retrieval.manifest import read_manifest, write_manifest
from spader_slime.retrieval.passages import Hit, Passage

RANK_CONSTANT = 60  # Cormack, Clarke and Buettcher, SIGIR 2009: 1 / (60 + rank)
DEPTH = 100  # hits of each engine that are fused, at least
_WORDS, _VECTORS = "words", "vectors"


class HybridWriter:
    """Fills both indexes, in sub-folders of `folder` (see `backend.Writer`)."""

    def __init__(
        self,
        folder: Path,
        words: Callable[[Path], TantivyWriter],
        vectors: Callable[[Path], DenseWriter],
        settings: dict[str, Any],
    ) -> None:
        self._folder, self._settings = folder, settings
        self._words, self._vectors = words(folder / _WORDS), vectors(folder / _VECTORS)
        self._vectors.keep(self._words.done)  # vectors are committed first: there may be more
        self.done, self.facts = self._words.done, self._words.facts

    def add(self, passage: Passage) -> None:
        self._words.add(passage)
        self._vectors.add(passage)

    def commit(self) -> None:
        self._vectors.commit()
        self._words.commit()
        self.done = self._words.done

    def finish(self) -> None:
        self._vectors.finish()
        self._words.finish()
        self.done = self._words.done
        facts = {"settings": self._settings, **self.facts}
        write_manifest(self._folder / _VECTORS, "dense", self.done, facts)
        write_manifest(self._folder / _WORDS, "tantivy", self.done, facts)


class HybridBackend:
    """Opens what `HybridWriter` filled (see `backend.Backend`).

    Raises:
        DataError: as `TantivyBackend` and `DenseBackend`.
    """

    def __init__(self, folder: Path) -> None:
        read_manifest(folder)
        self._engines: tuple[Backend, ...] = (
            TantivyBackend(folder / _WORDS),
            DenseBackend(folder / _VECTORS),
        )

    def __len__(self) -> int:
        return len(self._engines[0])

    def search(self, query: str, limit: int) -> list[Hit]:
        return self.search_all([query], limit, lambda: False)[0]

    def search_all(
        self, queries: Sequence[str], limit: int, given_up: Callable[[], bool]
    ) -> list[list[Hit]]:
        depth = max(limit, DEPTH)
        found = [engine.search_all(queries, depth, given_up) for engine in self._engines]
        return [fuse(rankings, limit) for rankings in zip(*found, strict=True)]


def fuse(rankings: Sequence[Sequence[Hit]], limit: int) -> list[Hit]:
    """Reciprocal rank fusion: a passage scores the sum of 1 / (60 + rank) over the rankings.

    Passages of the same title and text are one. Equal scores keep the order of the rankings.
    """
    scores: dict[tuple[str, str], float] = {}
    for ranking in rankings:
        passages = dict.fromkeys((hit.title, hit.text) for hit in ranking)
        for rank, passage in enumerate(passages, 1):
            scores[passage] = scores.get(passage, 0.0) + 1 / (RANK_CONSTANT + rank)
    best = sorted(scores.items(), key=lambda entry: -entry[1])[: max(limit, 0)]
    return [Hit(title, text, score) for (title, text), score in best]
