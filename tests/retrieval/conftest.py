from __future__ import annotations

from collections.abc import Iterator

import pytest

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
