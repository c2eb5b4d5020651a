"""The dense and hybrid backends, with a tiny random encoder."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.dense import FOUND, QUERIES, RECORDS, built, passage_of
from support.retrieval import WAIT_S
from support.tiny_models import PLACES

from spader_slime.retrieval.backend import GivenUpError
from spader_slime.retrieval.engines import BuildSettings, open_index
from spader_slime.retrieval.hybrid import DEPTH, fuse
from spader_slime.retrieval.models import Encoder, EncoderSettings
from spader_slime.retrieval.passages import Hit


def vectors(models: Path, texts: Sequence[str]) -> np.ndarray:
    """One text at a time, as the model gives it, made unit vectors."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(models / "encoder"))
    rows = np.stack([model.encode([text])[0] for text in texts]).astype(np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_dense_hits_are_the_nearest_vectors(corpus: Path, models: Path, tmp_path: Path) -> None:
    encoder = EncoderSettings(str(models / "encoder"), "film : ", "museum : ")
    built(corpus, tmp_path / "i", BuildSettings("dense", encoder=encoder))
    backend = open_index(tmp_path / "i")
    passages = vectors(models, [f"museum : {text}" for text in FOUND])
    cosines = vectors(models, [f"film : {query}" for query in QUERIES]) @ passages.T
    found = backend.search_all(QUERIES, 7, lambda: False)
    for row, hits in zip(cosines, found, strict=True):
        best = sorted(row, reverse=True)[:7]
        assert [hit.score for hit in hits] == pytest.approx(best, abs=1e-5)
        own = [row[FOUND.index(passage_of(hit))] for hit in hits]
        assert own == pytest.approx(best, abs=1e-5)
    assert len({passage_of(hit) for hit in backend.search(QUERIES[0], 1000)}) == len(RECORDS)


def test_dense_answers_blank_queries_with_nothing(
    corpus: Path, models: Path, tmp_path: Path
) -> None:
    encoder = EncoderSettings(str(models / "encoder"))
    built(corpus, tmp_path / "i", BuildSettings("dense", encoder=encoder))
    backend = open_index(tmp_path / "i")
    assert [len(hits) for hits in backend.search_all(["", "lima", " "], 2, bool)] == [0, 2, 0]
    assert backend.search("lima", 0) == [] and len(backend) == len(RECORDS)
    with pytest.raises(GivenUpError):
        backend.search_all(["lima"], 2, lambda: True)


def test_a_trained_index_looks_into_all_of_a_few_lists(
    corpus: Path, models: Path, tmp_path: Path
) -> None:
    encoder, found = EncoderSettings(str(models / "encoder")), []
    for factory in ("Flat", "IVF4,Flat"):
        settings = BuildSettings("dense", encoder=encoder, factory=factory)
        built(corpus, tmp_path / factory, settings)
        hits = open_index(tmp_path / factory).search_all(FOUND, 9, lambda: False)
        found.append([[hit.score for hit in row] for row in hits])
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)
    assert [row[0] for row in found[1]] == pytest.approx([1.0] * len(FOUND), abs=1e-5)


def test_hybrid_fuses_words_and_vectors(corpus: Path, models: Path, tmp_path: Path) -> None:
    encoder = EncoderSettings(str(models / "encoder"))
    for name in ("hybrid", "dense", "tantivy"):
        built(corpus, tmp_path / name, BuildSettings(name, encoder=encoder), 1000)  # one segment
    both = [open_index(tmp_path / name) for name in ("tantivy", "dense")]
    fused = open_index(tmp_path / "hybrid").search_all(QUERIES, 9, lambda: False)
    for query, hits in zip(QUERIES, fused, strict=True):
        ranks = [[passage_of(h) for h in engine.search(query, DEPTH)] for engine in both]
        expected = {
            text: sum(1 / (60 + row.index(text) + 1) for row in ranks if text in row)
            for text in FOUND
        }
        assert [expected[passage_of(hit)] for hit in hits] == pytest.approx(
            sorted(expected.values(), reverse=True)[:9]
        )
    assert len(open_index(tmp_path / "hybrid")) == len(RECORDS)


def test_fusion_counts_a_passage_once_per_ranking() -> None:
    a, b, c = (Hit(name, "", 0.0) for name in "abc")
    hits = fuse([[a, b, a], [c, b]], 2)
    assert [(hit.title, hit.score) for hit in hits] == [("b", 2 / 62), ("a", 1 / 61)]
    assert fuse([], 3) == fuse([[a]], 0) == []


def test_queries_of_several_callers_are_encoded_together(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder(EncoderSettings(str(models / "encoder")))
    entered, go = threading.Semaphore(0), threading.Semaphore(0)
    sizes, encode = [], encoder._model.encode_query

    def held(texts: list[str], **more: Any) -> Any:
        sizes.append(len(texts))
        entered.release()
        assert go.acquire(timeout=WAIT_S)
        return encode(texts, **more)

    monkeypatch.setattr(encoder._model, "encode_query", held)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(encoder.queries, ["oslo"])
        assert entered.acquire(timeout=WAIT_S)
        others = [encoder._queries.submit([place, f"old {place}"]) for place in PLACES[:3]]
        go.release(2)
        rows = [first.result(WAIT_S)[0], *(row for f in others for row in f.result(WAIT_S))]
    texts = ["oslo", *(text for place in PLACES[:3] for text in (place, f"old {place}"))]
    assert sizes == [1, 6]
    np.testing.assert_allclose(np.stack(rows), vectors(models, texts), atol=1e-5)
