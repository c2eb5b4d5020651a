"""Head and tail of the gold answers, by how many passages of the corpus name them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from tqdm import tqdm

from spader_slime.algorithms.entities import EntityMatcher
from spader_slime.algorithms.gold import Gold
from spader_slime.episode import Document
from spader_slime.errors import DataError
from spader_slime.files import write_whole
from spader_slime.retrieval.corpus import Corpus
from spader_slime.retrieval.fields import Fields
from spader_slime.retrieval.manifest import FILE, read_manifest

HEAD_SHARE = 1 / 3  # of a data set's gold answers, those named by most passages
_CACHE = "passages.json"
Question = tuple[str, int]


@dataclass(frozen=True)
class Tiers:
    """Which gold answers are well known.

    Attributes:
        of: question -> "head" or "tail" of each gold answer.
        at_least: data set -> passages that name an answer of the head, at least.
    """

    of: dict[Question, list[str | None]]
    at_least: dict[str, int]

    @property
    def note(self) -> str:
        said = ", ".join(f"{n} in {name}" for name, n in self.at_least.items())
        return f"Head: answers that the corpus names in this many passages or more: {said}."


def tiers_of(gold: Mapping[Question, Gold], corpus: Sequence[Path], folder: Path) -> Tiers:
    """Count in the corpus and tell head from tail.

    The head of a data set is the third of its gold answers that most passages name, with all that
    are named as often as its last one. Counts are kept in `folder`: the corpus is read once.

    Args:
        corpus: corpus files, folders of them, or an index built from such files.

    Raises:
        DataError: the corpus can't be read, or the index does not say what it was built from.
    """
    counts = _counted(gold, open_corpus(corpus), folder / _CACHE)
    at_least = {name: _border(counts, name) for name in dict.fromkeys(n for n, _ in counts)}
    of: dict[Question, list[str | None]] = {
        question: ["head" if c >= at_least[question[0]] else "tail" for c in own]
        for question, own in counts.items()
    }
    return Tiers(of, at_least)


def _border(counts: Mapping[Question, Sequence[int]], name: str) -> int:
    own = sorted((c for q, found in counts.items() if q[0] == name for c in found), reverse=True)
    return max(own[math.ceil(len(own) * HEAD_SHARE) - 1], 1)  # what nothing names is tail


def open_corpus(paths: Sequence[Path]) -> Corpus:
    """The passages of files, or of what an index was built from.

    Raises:
        DataError: see `tiers_of`.
    """
    if len(paths) == 1 and (paths[0] / FILE).is_file():
        known = read_manifest(paths[0]).get("corpus") or {}
        if not known.get("files"):
            raise DataError(f"{paths[0]} does not say what it was built from: give the corpus")
        fields = Fields(**known["fields"]) if known.get("fields") else None
        return Corpus([Path(file[0]) for file in known["files"]], fields, skip_bad=True)
    return Corpus(paths)


def _counted(gold: Mapping[Question, Gold], corpus: Corpus, cache: Path) -> dict[Question, Any]:
    names = sorted(gold)
    asked = orjson.dumps([corpus.describe(), [[*n, gold[n]] for n in names]])
    digest = hashlib.sha256(asked).hexdigest()
    if cache.is_file():
        kept = orjson.loads(cache.read_bytes())
        if kept["digest"] == digest:
            return {name: kept["counts"][i] for i, name in enumerate(names)}
    counts = count_passages([gold[name] for name in names], corpus)
    write_whole(cache, orjson.dumps({"digest": digest, "counts": counts}) + b"\n")
    return dict(zip(names, counts, strict=True))


def count_passages(golds: Sequence[Gold], corpus: Corpus) -> list[list[int]]:
    """For each gold set, how many passages name each of its answers, in title or text."""
    distinct: dict[tuple[str, ...], int] = {}
    places = [[distinct.setdefault(tuple(e), len(distinct)) for e in gold] for gold in golds]
    matcher = EntityMatcher([list(aliases) for aliases in distinct], cached_texts=0)
    found = [0] * len(distinct)
    with tqdm(total=corpus.size, desc="passages", unit="B", unit_scale=True, disable=None) as bar:
        for passage in corpus.passages():
            for entity in matcher.find_in_documents([Document(passage.title, passage.text)]):
                found[entity] += 1
            bar.update(corpus.position - bar.n)
    return [[found[place] for place in own] for own in places]
