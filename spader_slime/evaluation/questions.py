"""The questions of an evaluation: slime rows, or files of the public formats as they are."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spader_slime.algorithms.gold import Gold
from spader_slime.data.formats import FORMATS
from spader_slime.data.question import LeftOut, Messages
from spader_slime.data.reading import Record, read_records
from spader_slime.data.rows import sound_rows
from spader_slime.errors import ConfigError, DataError
from spader_slime.scorings.reference import Reference

# Fields by which the record of a public format is known; tried in this order.
_SIGNS = {
    "qampari": ("question_text", "answer_list"),
    "webqsp": ("Parses",),
    "quest": ("query", "docs"),
    "search_r1": ("golden_answers",),
    "spader": ("ground_truth",),
    "mintaka": ("question", "answer"),
}


@dataclass(frozen=True)
class Asked:
    """One question of a data set.

    Attributes:
        number: its place in the file, from 0; rows that are left out don't count.
        prompt: chat messages, or the bare question, around which the protocol puts its own.
        reference: what answers are scored against.
        tiers: "head", "tail" or None for each gold answer, where the file says so.
    """

    dataset: str
    number: int
    id: str
    question: str
    prompt: Messages | str
    reference: Reference
    tiers: tuple[str | None, ...] = ()

    @property
    def gold(self) -> Gold:
        return self.reference.gold


@dataclass(frozen=True)
class DataSet:
    """A file of questions under a name.

    Attributes:
        digest: SHA-256 of the file's bytes.
        left_out: rows that can't be asked, by reason.
    """

    name: str
    path: Path
    digest: str
    questions: list[Asked]
    left_out: Counter[str] = field(default_factory=Counter)

    def describe(self) -> dict[str, Any]:
        """What the folder of an evaluation keeps of it, JSON-ready."""
        sizes = {"questions": len(self.questions), "left_out": dict(self.left_out)}
        return {"file": str(self.path), "sha256": self.digest, **sizes}


def read_data_sets(named: Mapping[str, Path]) -> list[DataSet]:
    """All data sets, in the order given.

    Raises:
        DataError: a file that can't be read, a broken row, or no question in a file.
    """
    return [read_data_set(name, path) for name, path in named.items()]


def read_data_set(name: str, path: Path) -> DataSet:
    """The questions of one file: rows with `prompt` and `label`, or a format of `data.formats`.

    Raises:
        DataError: see `read_data_sets`.
    """
    left_out: Counter[str] = Counter()
    kind = _kind_of(path)
    rows = _rows(name, path) if kind == "rows" else _of_format(name, path, kind, left_out)
    questions = list(rows)
    if not questions:
        raise DataError(f"{path} holds no question")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return DataSet(name, path, digest, questions, left_out)


def _kind_of(path: Path) -> str:
    record = next(read_records(path), None)
    if record is None:
        raise DataError(f"{path} holds no question")
    value = _sound(record)
    if "prompt" in value and "label" in value:
        return "rows"
    for kind, signs in _SIGNS.items():
        if all(sign in value for sign in signs):
            return kind
    raise DataError(f"{record.place}: neither a row with prompt and label nor a known format")


def _sound(record: Record) -> dict[str, Any]:
    if record.value is None:
        raise DataError(f"{record.place}: {record.fault}")
    return record.value


def _rows(name: str, path: Path) -> Iterator[Asked]:
    for number, row in enumerate(sound_rows(path)):
        known = row.metadata
        yield Asked(
            dataset=name,
            number=number,
            id=str(known.get("id") or f"{name}-{number}"),
            question=row.question,
            prompt=row.prompt,
            reference=Reference.of(row.gold, known),
            tiers=_tiers(known.get("tiers"), row.gold, row.place),
        )


def _of_format(name: str, path: Path, kind: str, left_out: Counter[str]) -> Iterator[Asked]:
    number = 0
    for record in read_records(path):
        try:
            found = FORMATS[kind](_sound(record))
        except LeftOut as why:
            left_out[why.reason] += 1
            continue
        except DataError as error:
            raise DataError(f"{record.place}: {error}") from error
        known = {"source": found.source, "official": found.official}
        yield Asked(
            dataset=name,
            number=number,
            id=found.id or f"{name}-{number}",
            question=found.question,
            prompt=found.question,
            reference=Reference.of(found.gold, known),
            tiers=tuple(found.tiers or ()),
        )
        number += 1


def _tiers(value: Any, gold: Gold, place: str) -> tuple[str | None, ...]:
    tiers = tuple(value) if value is not None else ()
    if tiers and len(tiers) != len(gold):
        raise DataError(f"{place}: {len(tiers)} tiers for {len(gold)} answers")
    return tiers


def named_file(text: str) -> tuple[str, Path]:
    """`NAME=FILE` of the command line.

    Raises:
        ConfigError: it is not written like that.
    """
    name, _, path = text.partition("=")
    if not name or not path:
        raise ConfigError("--data", text, "NAME=FILE")
    return name, Path(path)
