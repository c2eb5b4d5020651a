"""A small corpus for the dense and hybrid backends."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from spader_slime.retrieval.building import Built, build
from spader_slime.retrieval.corpus import Corpus
from spader_slime.retrieval.engines import BuildSettings
from spader_slime.retrieval.passages import Hit
from support.tiny_models import PLACES, THINGS

RECORDS = [
    {"title": f"{place} {n}", "text": f"{thing} in {place} " + "old " * (n % 3)}
    for n, (place, thing) in enumerate(product(PLACES, THINGS))
]
QUERIES = ["old river in oslo", "lima", "capital city of rome"]
FOUND = [f"{r['title']}\n{r['text']}" for r in RECORDS]


def built(corpus: Path, folder: Path, settings: BuildSettings, commit_every: int = 10) -> Built:
    lasting = settings.lasting()
    return build(
        Corpus([corpus]), folder, settings.backend, settings.writer, lasting, False, commit_every
    )


def passage_of(hit: Hit) -> str:
    return f"{hit.title}\n{hit.text}"
