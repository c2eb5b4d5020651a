"""Passages and the files they are read from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from spader_slime.errors import DataError


@dataclass(frozen=True)
class Passage:
    """One searchable document.

    `prior` multiplies its BM25 score (1.0: BM25 alone); at least 1.
    """

    title: str
    text: str
    prior: float = 1.0


@dataclass(frozen=True)
class Hit:
    """A passage found by a query; `score` is comparable within one query only."""

    title: str
    text: str
    score: float


def read_passages(paths: Iterable[Path]) -> Iterator[Passage]:
    """Stream passages from QAMPARI corpus files (`{"id", "contents", "meta": {"title",
    "content", ...}}`, one per line). `meta.prior` is ours and optional.

    Raises:
        DataError: names file and line of what can't be read.
    """
    for path in paths:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _passage(line, f"{path}:{number}")


def _passage(line: bytes, where: str) -> Passage:
    try:
        meta: dict[str, Any] = orjson.loads(line)["meta"]
        passage = Passage(str(meta["title"]), str(meta["content"]), float(meta.get("prior", 1.0)))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{where}: not a corpus line ({error!r})") from error
    if not passage.prior >= 1.0:
        raise DataError(f"{where}: prior {passage.prior} is below 1")
    return passage
