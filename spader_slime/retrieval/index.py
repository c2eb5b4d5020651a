"""A BM25 index on disk (tantivy), behind the small interface `Backend`.

Title and text are indexed together, as one field: lower case, accents folded, English stop words
removed, Porter stemming. Ranking is tantivy's BM25 (k1 1.2, b 0.75, not configurable). A corpus
may give passages a static prior, as web search gives pages: their score is BM25 times the prior,
so that among passages that match equally well the prominent ones come first. Equal scores keep
the order of the corpus.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from tantivy import (
    Document,
    Filter,
    Index,
    Occur,
    Query,
    Schema,
    SchemaBuilder,
    TextAnalyzer,
    TextAnalyzerBuilder,
    Tokenizer,
)

from spader_slime.errors import DataError
from spader_slime.retrieval.passages import Hit, Passage

MAX_TERMS = 64  # distinct words of a query that are looked up
_ANALYZER = "english_words"
_FORMAT = 1
_HEAP_BYTES = 64_000_000
_MANIFEST = "manifest.json"


class Backend(Protocol):
    """What the service needs from a search engine. Must be safe to call from one thread."""

    def search(self, query: str, limit: int) -> list[Hit]:
        """At most `limit` hits, best first. The query is words, never syntax; none: no hits."""

    def __len__(self) -> int:
        """Number of passages."""


def build_index(passages: Iterable[Passage], folder: Path) -> int:
    """Index `passages` into `folder` (replaced if it exists); returns how many there were.

    The manifest is written last: a folder without it is never opened.

    Raises:
        DataError: there was no passage.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    index = Index(_schema(), path=str(folder))
    index.register_tokenizer(_ANALYZER, _analyzer())
    writer = index.writer(_HEAP_BYTES, num_threads=1)  # one thread keeps the corpus order
    count, weighted = 0, False
    for passage in passages:
        writer.add_document(_document(passage))
        count, weighted = count + 1, weighted or passage.prior != 1.0
    writer.commit()
    writer.wait_merging_threads()
    if not count:
        raise DataError("no passages to index")
    manifest = {"format": _FORMAT, "passages": count, "weighted": weighted}
    (folder / _MANIFEST).write_text(json.dumps(manifest))
    return count


class TantivyBackend:
    """Opens what `build_index` wrote.

    Raises:
        DataError: no complete index of this format in `folder`.
    """

    def __init__(self, folder: Path) -> None:
        manifest = _read_manifest(folder)
        self._analyzer, self._schema = _analyzer(), _schema()
        self._searcher = Index(self._schema, path=str(folder)).searcher()
        self._prior = "prior" if manifest["weighted"] else None

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def search(self, query: str, limit: int) -> list[Hit]:
        terms = dict.fromkeys(self._analyzer.analyze(query))
        if not terms or limit < 1:
            return []
        found = self._searcher.search(
            self._any_of(list(terms)[:MAX_TERMS]), limit, count=False, weight_by_field=self._prior
        )
        return [self._hit(score, address) for score, address in found.hits]

    def _any_of(self, terms: list[str]) -> Query:
        schema = self._schema
        queries = [Query.term_query(schema, "contents", term, "freq") for term in terms]
        return Query.boolean_query([(Occur.Should, query) for query in queries])

    def _hit(self, score: float, address: object) -> Hit:
        document = self._searcher.doc(address)  # type: ignore[arg-type]
        title, text = document.get_first("title"), document.get_first("text")
        return Hit(bytes(title or b"").decode(), bytes(text or b"").decode(), float(score))


def _schema() -> Schema:
    builder = SchemaBuilder()
    builder.add_text_field("contents", tokenizer_name=_ANALYZER, index_option="freq")
    builder.add_bytes_field("title", stored=True)
    builder.add_bytes_field("text", stored=True)
    builder.add_float_field("prior", fast=True)
    return builder.build()


def _analyzer() -> TextAnalyzer:
    builder = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(255))
    builder = builder.filter(Filter.lowercase()).filter(Filter.ascii_fold())
    return builder.filter(Filter.stopword("english")).filter(Filter.stemmer("english")).build()


def _document(passage: Passage) -> Document:
    return Document(
        contents=f"{passage.title}\n{passage.text}",
        title=passage.title.encode(),
        text=passage.text.encode(),
        prior=_tantivy_weight(passage.prior),
    )


def _tantivy_weight(prior: float) -> float:
    """tantivy multiplies a score by log2(2 + weight)."""
    return 2.0**prior - 2.0


def _read_manifest(folder: Path) -> dict[str, int]:
    path = folder / _MANIFEST
    if not path.is_file():
        raise DataError(f"{folder} holds no complete index: build it first")
    manifest: dict[str, int] = json.loads(path.read_text())
    if manifest.get("format") != _FORMAT:
        raise DataError(f"{folder} was built by another version: build it again")
    return manifest
