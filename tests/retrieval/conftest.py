from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.dense import RECORDS
from support.tiny_models import tiny_bert

from spader_slime.retrieval.index import build_index
from spader_slime.retrieval.launch import SearchProcess
from spader_slime.retrieval.passages import Passage

PASSAGES = [
    Passage("Oslo", "Capital of Norway, near Drammen."),
    Passage("Bergen", "City in Vestland, Norway."),
    Passage("Trondheim", "City in Trøndelag, Norway."),
    Passage("Lima", "Capital of Peru."),
    Passage("8½", "A film made by Federico Fellini."),
]


@pytest.fixture(scope="session")
def search_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running service over `PASSAGES`."""
    folder = tmp_path_factory.mktemp("search") / "index"
    build_index(PASSAGES, folder)
    with SearchProcess(folder) as service:
        yield service.url


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of tiny models: `encoder`, `reranker`."""
    for library in ("sentence_transformers", "faiss"):
        pytest.importorskip(library, reason="the extra [dense] is not installed")
    folder = tmp_path_factory.mktemp("models")
    tiny_bert(folder / "encoder")
    tiny_bert(folder / "reranker", labels=1)
    return folder


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "c.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return path
