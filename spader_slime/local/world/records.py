"""The records that a world is written in: questions in QAMPARI's format, passages in that of
QAMPARI's corpus."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson


@dataclass(frozen=True)
class Entity:
    """A gold answer: its name, further aliases, and whether it is among the prominent third."""

    name: str
    aliases: tuple[str, ...] = ()
    tier: str = "tail"  # head | tail


@dataclass(frozen=True)
class Question:
    """A question with its complete answer, the most prominent entity first."""

    qid: str
    text: str
    answers: tuple[Entity, ...]
    metadata: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """QAMPARI's form; `rank` (1 = most prominent), `tier` and `metadata` are extra keys."""
        return {
            "qid": self.qid,
            "question_text": self.text,
            "answer_list": [_answer(self.qid, i, e) for i, e in enumerate(self.answers, 1)],
            "metadata": self.metadata,
        }


@dataclass(frozen=True)
class WorldPassage:
    """A passage; `prior` (at least 1) is its static weight in the search index."""

    id: str
    title: str
    text: str
    prior: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        """QAMPARI's corpus form with one extra key, `meta.prior`."""
        meta = {"title": self.title, "content": self.text, "prior": self.prior}
        return {"id": self.id, "contents": f"{self.title} {self.text}", "meta": meta}


@dataclass(frozen=True)
class World:
    """A world before it is written.

    Attributes:
        questions: by split.
        passages: the most prominent first.
        names: every name that a question, a passage or an answer may hold.
        tokens: the names that get a token of their own.
        phrases: the fixed wording around them, and pieces to spell other names with.
        sources: highest document number with a token of its own.
    """

    questions: dict[str, list[Question]]
    passages: list[WorldPassage]
    names: list[str]
    tokens: list[str]
    phrases: list[str]
    sources: int = 64


def _answer(qid: str, rank: int, entity: Entity) -> dict[str, Any]:
    return {
        "answer_text": entity.name,
        "aid": f"{qid}__{rank}",
        "aliases": [entity.name, *entity.aliases],
        "proof": [],
        "rank": rank,
        "tier": entity.tier,
    }


def rank_entities(names: Sequence[str], aliases: Sequence[tuple[str, ...]] = ()) -> list[Entity]:
    """Entities from names ordered by prominence: the first third is the head."""
    head = math.ceil(len(names) / 3)
    extra = list(aliases) or [()] * len(names)
    tiers = ["head"] * head + ["tail"] * (len(names) - head)
    return [Entity(*fields) for fields in zip(names, extra, tiers, strict=True)]


def population_prior(population: int) -> float:
    """1 for a place of a thousand people, 2 for ten million: one quarter per power of ten."""
    return round(1.0 + math.log10(max(population, 1000) / 1000) / 4, 4)


def slug(name: str) -> str:
    """A name as part of an identifier."""
    return re.sub(r"\W+", "-", name.casefold()).strip("-")


def write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """One JSON object per line, keys in the given order, UTF-8."""
    with path.open("wb") as out:
        for row in rows:
            out.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
