"""A BM25 index on disk (tantivy): the default backend.

Title and text are indexed together, as one field: lower case, accents folded, Lucene's 33 English
stop words removed, English (Snowball) stemming. Ranking is tantivy's BM25 (k1 1.2, b 0.75, not
configurable). A corpus may give passages a static prior, as web search gives pages: their score
is BM25 times the prior, so that among passages that match equally well the prominent ones come
first. Equal scores keep the order of the corpus while the index is one segment, that is up to
some 100,000 passages.

The index holds words and a number for each passage; titles and texts are in a `store`, which gives
them back faster than tantivy's compressed blocks do.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from tantivy import (
    Document,
    Filter,
    Index,
    Schema,
    SchemaBuilder,
    TextAnalyzer,
    TextAnalyzerBuilder,
    Tokenizer,
)

from spader_slime.errors import DataError
from spader_slime.retrieval.backend import one_by_one
from spader_slime.retrieval.manifest import read_manifest, write_manifest
from spader_slime.retrieval.passages import Hit, Passage
from spader_slime.retrieval.pruning import BestMatches
from spader_slime.retrieval.store import Store, StoreWriter

_ANALYZER = "english_words"
_HEAP_BYTES = 64_000_000


class TantivyWriter:
    """Fills an index in `folder` (see `backend.Writer`); goes on with a half-built one.

    Args:
        heap_bytes: memory for passages not yet written.
        threads: more than one is faster, and no longer keeps the corpus order of equal scores.
    """

    def __init__(self, folder: Path, heap_bytes: int = _HEAP_BYTES, threads: int = 1) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        index = Index(_schema(), path=str(folder))
        index.register_tokenizer(_ANALYZER, _analyzer())
        self.done = int(index.searcher().num_docs)
        self.facts: dict[str, Any] = {"weighted": False}
        self._added = self.done
        self._store = StoreWriter(folder)
        self._store.keep(self.done)
        self._writer = index.writer(heap_bytes * threads, num_threads=threads)

    def add(self, passage: Passage) -> None:
        self._store.add(passage)
        self._writer.add_document(_document(passage, self._added))
        self._added += 1
        if passage.prior != 1.0:
            self.facts["weighted"] = True

    def commit(self) -> None:
        self._store.sync()
        self._writer.commit()
        self.done = self._added

    def finish(self) -> None:
        self.commit()
        self._writer.wait_merging_threads()


def build_index(passages: Iterable[Passage], folder: Path) -> int:
    """Index `passages` into `folder` (replaced if it exists); returns how many there were.

    The manifest is written last: a folder without it is never opened. For a corpus of files, with
    progress and resumption, see `building.build`.

    Raises:
        DataError: there was no passage.
    """
    shutil.rmtree(folder, ignore_errors=True)
    writer = TantivyWriter(folder)
    for passage in passages:
        writer.add(passage)
    writer.finish()
    if not writer.done:
        raise DataError("no passages to index")
    write_manifest(folder, "tantivy", writer.done, writer.facts)
    return writer.done


class TantivyBackend:
    """Opens a complete tantivy index (see `backend.Backend`).

    Raises:
        DataError: no complete index of this format in `folder`.
    """

    def __init__(self, folder: Path) -> None:
        manifest = read_manifest(folder)
        self._analyzer, schema = _analyzer(), _schema()
        self._searcher = Index(schema, path=str(folder)).searcher()
        self._store = Store(folder)
        prior = "prior" if manifest["weighted"] else ""
        self._best = BestMatches(self._searcher, schema, "contents", prior)

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    @property
    def segments(self) -> int:
        """Parts that the index consists of; a query looks into each."""
        return int(self._searcher.num_segments)

    def search(self, query: str, limit: int) -> list[Hit]:
        terms = Counter(self._analyzer.analyze(query))
        if not terms or limit < 1:
            return []
        found = self._best.search(terms, limit)
        places = [place for _, place in found]
        numbers = cast(list[int], self._searcher.fast_field_values("number", places))
        pairs = zip(numbers, found, strict=True)
        return self._store.hits([(number, score) for number, (score, _) in pairs])

    def search_all(
        self, queries: Sequence[str], limit: int, given_up: Callable[[], bool]
    ) -> list[list[Hit]]:
        return one_by_one(self, queries, limit, given_up)


def _schema() -> Schema:
    builder = SchemaBuilder()
    builder.add_text_field("contents", tokenizer_name=_ANALYZER, index_option="freq")
    builder.add_integer_field("number", fast=True)
    builder.add_float_field("prior", fast=True)
    return builder.build()


def _analyzer() -> TextAnalyzer:
    builder = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(255))
    builder = builder.filter(Filter.lowercase()).filter(Filter.ascii_fold())
    return builder.filter(Filter.stopword("english")).filter(Filter.stemmer("english")).build()


def _document(passage: Passage, number: int) -> Document:
    return Document(
        contents=f"{passage.title}\n{passage.text}",
        number=number,
        prior=_tantivy_weight(passage.prior),
    )


def _tantivy_weight(prior: float) -> float:
    """tantivy multiplies a score by log2(2 + weight)."""
    return 2.0**prior - 2.0
