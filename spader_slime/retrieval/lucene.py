"""Optional backend: Lucene BM25 (k1 0.9, b 0.4) through pyserini, the authors' environment.

Lucene finds the numbers of passages, `store` holds their text. Anserini's Java classes are called
directly: pyserini's Python wrappers load packages that searching does not need. Needs a JDK of
version 21 or later (`JAVA_HOME`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from spader_slime.errors import DataError
from spader_slime.retrieval.backend import one_by_one
from spader_slime.retrieval.extras import need
from spader_slime.retrieval.manifest import read_manifest
from spader_slime.retrieval.passages import Hit, Passage
from spader_slime.retrieval.store import Store, StoreWriter

K1, B = 0.9, 0.4
MAX_QUERY_WORDS = 512  # Lucene refuses a query of more than 1024 different ones
_BATCH = 1000
_WORDS = "lucene"  # sub-folder


def java(name: str) -> Any:
    """A Java class of Anserini.

    Raises:
        DataError: pyserini is missing, or there is no Java that can run it.
    """
    pyclass = need("pyserini.pyclass", "the Lucene backend", "spader_slime[lucene]")
    try:
        return pyclass.autoclass(name)
    except Exception as error:  # jnius.JavaException, whose module may be what failed
        raise DataError(
            f"the Lucene backend needs Java 21 or later, see JAVA_HOME ({error})"
        ) from error


class LuceneWriter:
    """Fills an index in `folder` (see `backend.Writer`); `threads` threads write."""

    def __init__(self, folder: Path, threads: int = 1) -> None:
        self._indexer_class = java("io.anserini.index.SimpleIndexer")
        folder.mkdir(parents=True, exist_ok=True)
        self._words, self._threads = folder / _WORDS, threads
        self.done = self._added = _count(self._words)
        self.facts: dict[str, Any] = {"k1": K1, "b": B}
        self._store = StoreWriter(folder)
        self._store.keep(self.done)
        self._batch: list[str] = []
        self._open()

    def add(self, passage: Passage) -> None:
        self._store.add(passage)
        line = {"id": str(self._added), "contents": f"{passage.title}\n{passage.text}"}
        self._batch.append(orjson.dumps(line).decode())
        self._added += 1
        if len(self._batch) >= _BATCH:
            self._flush()

    def commit(self) -> None:
        self.finish()
        self._open()

    def finish(self) -> None:
        self._store.sync()
        self._flush()
        self._indexer.close()  # closing is the only commit it offers
        self.done = self._added

    def _open(self) -> None:
        append = self._words.is_dir()
        self._indexer = self._indexer_class(str(self._words), append, self._threads)

    def _flush(self) -> None:
        if self._batch:
            self._indexer.addRawDocuments(self._batch)
            self._batch = []


class LuceneBackend:
    """Opens what `LuceneWriter` filled (see `backend.Backend`).

    Raises:
        DataError: no complete index in `folder`, or pyserini can't be used.
    """

    def __init__(self, folder: Path) -> None:
        manifest = read_manifest(folder)
        self._store = Store(folder)
        self._searcher = java("io.anserini.search.SimpleSearcher")(str(folder / _WORDS))
        self._searcher.set_bm25(manifest["k1"], manifest["b"])

    def __len__(self) -> int:
        return len(self._store)

    def search(self, query: str, limit: int) -> list[Hit]:
        words = " ".join(query.split()[:MAX_QUERY_WORDS])
        if not words or limit < 1:
            return []
        found = self._searcher.search(words, limit)
        return self._store.hits([(int(hit.docid), hit.score) for hit in found])

    def search_all(
        self, queries: Sequence[str], limit: int, given_up: Callable[[], bool]
    ) -> list[list[Hit]]:
        return one_by_one(self, queries, limit, given_up)


def _count(words: Path) -> int:
    """Passages of a half-built index; 0 where nothing was committed."""
    if not any(words.glob("segments_*")):
        return 0
    searcher = java("io.anserini.search.SimpleSearcher")(str(words))
    try:
        return int(searcher.get_total_num_docs())
    finally:
        searcher.close()
