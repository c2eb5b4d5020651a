"""One engine in a process of its own: `python search_engines.py build|search NAME FOLDER ...`.

Prints one line of JSON. Runs under any interpreter that has the engine, numpy and orjson: bm25s and
Lucene need not be installed beside spader_slime.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
from search_load import Load, for_seconds, in_threads, memory, summary

from spader_slime.retrieval.manifest import write_manifest
from spader_slime.retrieval.passages import Hit, Passage
from spader_slime.retrieval.store import Store, StoreWriter

Search = Callable[[str, int], Sequence[Hit]]
K1, B = 0.9, 0.4  # of Lucene in the authors' environment


def passages(corpus: Path) -> Iterator[Passage]:
    with corpus.open("rb") as lines:
        for line in lines:
            record = orjson.loads(line)
            yield Passage(record["title"], record["text"])


class Bm25s:
    """bm25s with numba: scores of all passages at once; titles and texts from a store."""

    def __init__(self, folder: Path, threads: int) -> None:
        import bm25s

        self._library, self._folder, self._threads = bm25s, folder, threads

    def build(self, corpus: Path) -> None:
        self._folder.mkdir(parents=True)
        store, texts = StoreWriter(self._folder), []
        for passage in passages(corpus):
            store.add(passage)
            texts.append(f"{passage.title}\n{passage.text}")
        store.sync()
        engine = self._library.BM25(method="lucene", k1=K1, b=B, backend="numba")
        engine.index(self._tokens(texts), show_progress=False)
        engine.save(str(self._folder / "bm25s"))

    def open(self) -> Search:
        engine = self._library.BM25.load(str(self._folder / "bm25s"), show_progress=False)
        store = Store(self._folder)

        def search(query: str, limit: int) -> list[Hit]:
            tokens = self._tokens(query)
            found = engine.retrieve(tokens, k=limit, show_progress=False)
            pairs = zip(found[0][0].tolist(), found[1][0].tolist(), strict=True)
            return store.hits([(number, score) for number, score in pairs if score > 0])

        return search

    def _tokens(self, texts: str | list[str]) -> Any:
        one = isinstance(texts, str)
        return self._library.tokenize(texts, show_progress=False, return_ids=not one)


class Lucene:
    """Lucene through Anserini, as the `lucene` backend calls it."""

    def __init__(self, folder: Path, threads: int, k1: float = K1, b: float = B) -> None:
        self._folder, self._threads, self._parameters = folder, threads, (k1, b)

    def build(self, corpus: Path) -> None:
        from spader_slime.retrieval.lucene import LuceneWriter

        writer = LuceneWriter(self._folder, self._threads)
        for passage in passages(corpus):
            writer.add(passage)
        writer.finish()
        write_manifest(self._folder, "lucene", writer.done, writer.facts)

    def open(self) -> Search:
        from spader_slime.retrieval.lucene import LuceneBackend

        backend = LuceneBackend(self._folder)
        backend._searcher.set_bm25(*self._parameters)
        return backend.search


class Tantivy:
    """The default backend, in process; `spader-slime index build` builds it."""

    def __init__(self, folder: Path, threads: int) -> None:
        self._folder, self._threads = folder, threads

    def build(self, corpus: Path) -> None:
        from spader_slime.retrieval.building import build
        from spader_slime.retrieval.corpus import Corpus
        from spader_slime.retrieval.engines import BuildSettings

        settings = BuildSettings(threads=self._threads)
        build(Corpus([corpus]), self._folder, "tantivy", settings.writer, {})

    def open(self) -> Search:
        from spader_slime.retrieval.index import TantivyBackend

        return TantivyBackend(self._folder).search


def lucene_like_tantivy(folder: Path, threads: int) -> Lucene:
    return Lucene(folder, threads, 1.2, 0.75)


ENGINES: dict[str, Callable[[Path, int], Any]] = {
    "tantivy": Tantivy,
    "lucene": Lucene,
    "lucene at 1.2 / 0.75": lucene_like_tantivy,
    "bm25s": Bm25s,
}


def measure(search: Search, queries: Sequence[str], limit: int, threads: int, s: float) -> Load:
    """Queries a second and milliseconds of a query, texts included."""

    def work(numbers: Iterator[int]) -> list[float]:
        return for_seconds(lambda n: search(queries[n % len(queries)], limit), s, numbers)

    before = time.process_time()
    taken, wall = in_threads(work, threads)
    return summary(taken, wall, time.process_time() - before)


def name_of(title: str, text: str) -> str:
    """A short name of a passage that is the same for all engines."""
    return hashlib.md5(f"{title}\n{text}".encode()).hexdigest()[:12]


def build_here(options: argparse.Namespace) -> dict[str, Any]:
    shutil.rmtree(options.folder, ignore_errors=True)
    began = time.perf_counter()
    ENGINES[options.name](options.folder, options.threads).build(options.corpus)
    taken = time.perf_counter() - began
    size = sum(file.stat().st_size for file in options.folder.rglob("*") if file.is_file())
    cpu = time.process_time()
    return {"seconds": taken, "cpu": cpu, "disk_mb": size / 1e6, "peak_mb": memory()["peak"]}


def search_here(options: argparse.Namespace) -> dict[str, Any]:
    queries = json.loads(options.queries.read_text())
    search = ENGINES[options.name](options.folder, options.threads).open()
    for query in queries[:300]:
        search(query, 50)
    loads = {
        f"{k} {threads}": vars(measure(search, queries, k, threads, options.seconds))
        for k in (5, 50)
        for threads in (1, 2)
        if options.seconds
    }
    best = [
        [name_of(hit.title, hit.text) for hit in search(q, 50)] for q in queries[: options.rank]
    ]
    return {"loads": loads, **memory(), "rankings": best}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("build", "search"))
    parser.add_argument("name", choices=ENGINES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--queries", type=Path, help="JSON list of strings")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each measurement")
    parser.add_argument("--rank", type=int, default=0, help="queries to print the rankings of")
    options = parser.parse_args()
    print(json.dumps({"build": build_here, "search": search_here}[options.action](options)))


if __name__ == "__main__":
    main()
