"""Reranking with a tiny random cross-encoder, over real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.retrieval import WAIT_S, ThreadedServer, call, metric
from support.tiny_models import PLACES, THINGS, tiny_bert

from spader_slime.errors import DataError
from spader_slime.retrieval.engines import BuildSettings
from spader_slime.retrieval.index import TantivyBackend, build_index
from spader_slime.retrieval.manifest import write_manifest
from spader_slime.retrieval.models import EncoderSettings, Reranker
from spader_slime.retrieval.passages import Hit, Passage
from spader_slime.retrieval.serving import ServeOptions, make_server

CASES = Path(__file__).parents[1] / "cases" / "queries.jsonl"
PASSAGES = [
    Passage(f"{place} {n}", f"{thing} in {place} " + "old " * (n % 5))
    for n, (place, thing) in enumerate(product(PLACES, THINGS))
]
QUERIES = ["old river oslo", "lima film", "city rome old", "museum"]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reranked") / "index"
    build_index(PASSAGES, folder)
    return folder


@pytest.fixture(scope="module")
def url(index: Path, models: Path) -> Iterator[str]:
    """A service that reranks."""
    service = ThreadedServer(make_server(ServeOptions(index, rerank=str(models / "reranker"))))
    yield service.url
    service.stop()


def scored(models: Path, query: str, hits: Sequence[Hit]) -> list[float]:
    """What the model says of each pair by itself."""
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(str(models / "reranker"))
    return [float(model.predict([(query, f"{h.title}\n{h.text}")])[0]) for h in hits]


def ask(url: str, queries: list[str], **more: Any) -> list[list[dict[str, Any]]]:
    body = {"queries": queries, "return_scores": True, **more}
    status, reply = call(url, body)
    assert status == 200
    return [row["documents"] for row in reply["result"]]


def test_candidates_come_back_in_the_models_order(url: str, index: Path, models: Path) -> None:
    backend = TantivyBackend(index)
    rows = ask(url, QUERIES, top_k=4, initial_k=7)
    for query, documents in zip(QUERIES, rows, strict=True):
        hits = backend.search(query, 7)
        own = dict(zip((h.title for h in hits), scored(models, query, hits), strict=True))
        assert [d["score"] for d in documents] == pytest.approx(
            sorted(own.values(), reverse=True)[:4], abs=1e-5
        )
        assert [own[d["title"]] for d in documents] == pytest.approx(
            [d["score"] for d in documents], abs=1e-5
        )


def test_a_caller_can_do_without(url: str, index: Path) -> None:
    first = [h.title for h in TantivyBackend(index).search(QUERIES[0], 5)]
    (plain,) = ask(url, QUERIES[:1], use_reranker=False)
    assert [d["title"] for d in plain] == first
    assert [d["title"] for d in ask(url, QUERIES[:1])[0]] != first
    assert call(url, {"queries": ["lima"], "use_reranker": True})[1]["reranked"] is True


def test_calls_at_once_get_what_they_get_alone(url: str) -> None:
    alone = [ask(url, [query], top_k=10) for query in QUERIES]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda query: ask(url, [query], top_k=10), QUERIES * 4))
    for got, expected in zip(together, alone * 4, strict=True):
        scores = [{d["title"]: d["score"] for d in row} for row in (*got, *expected)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    assert metric(url, "spader_search_rerank_batch_pairs_count") > 0


def test_pairs_of_several_callers_make_one_batch(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers import CrossEncoder

    entered, go = threading.Semaphore(0), threading.Semaphore(0)
    predict = CrossEncoder.predict

    def held(self: Any, pairs: list[tuple[str, str]], **more: Any) -> Any:
        entered.release()
        assert go.acquire(timeout=WAIT_S)
        return predict(self, pairs, **more)

    sizes: list[int] = []
    reranker = Reranker(str(models / "reranker"), sizes.append)
    hits = [Hit(p.title, p.text, 0.0) for p in PASSAGES]
    monkeypatch.setattr(CrossEncoder, "predict", held)
    first = reranker.scores("oslo", hits[:2])
    assert entered.acquire(timeout=WAIT_S)
    others = [reranker.scores(query, hits[n : n + 5]) for n, query in enumerate(QUERIES)]
    go.release(2)
    found = [future.result(WAIT_S) for future in (first, *others)]
    monkeypatch.undo()
    assert sizes == [2, 20]
    for n, query in enumerate(QUERIES):
        assert found[n + 1] == pytest.approx(scored(models, query, hits[n : n + 5]), abs=1e-5)


def test_any_query_is_answered_by_the_neural_engines(
    models: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("hybrid")
    settings = BuildSettings("hybrid", encoder=EncoderSettings(str(models / "encoder")))
    writer = settings.writer(folder)
    for passage in PASSAGES:
        writer.add(passage)
    writer.finish()
    write_manifest(folder, "hybrid", writer.done, {"settings": settings.lasting()})
    options = ServeOptions(folder, rerank=str(models / "reranker"), protocol="search_r1")
    service = ThreadedServer(make_server(options))
    try:
        for case in map(json.loads, CASES.open()):
            status, reply = call(service.url, {"queries": [case["query"], "lima"]})
            assert status == 200 and [len(row) for row in reply["result"]][1] == 3, case["why"]
            assert bool(reply["result"][0]) == bool(case["query"].strip()), case["why"]
    finally:
        service.stop()


def test_what_is_wrong_with_a_reranker_is_said(models: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing can't be loaded"):
        Reranker(str(tmp_path / "nothing"))
    with pytest.raises(DataError, match="gives 3 scores"):
        Reranker(str(tiny_bert(tmp_path / "three", labels=3)))
