"""Records damaged in any one place are read or refused, never the end of a conversion."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pytest

from spader_slime.algorithms.gold import as_gold
from spader_slime.data.formats import FORMATS
from spader_slime.data.question import BadRecord, Question
from spader_slime.data.reading import read_records
from spader_slime.data.rows import slime_row
from spader_slime.data.writing import row_schema

FILES = Path(__file__).parent / "files"
NAMES = [path.name for path in sorted(FILES.iterdir())]
ODD: list[Any] = [None, "", "x", 7, 1.5, True, [], {}, [None], ["x"], [7], [[]], [[["x"]]], [{}]]
ODD += [{"x": 1}, {"en": "x"}, "[", '["x"]', "\ud83d", float("nan")]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a record, from the outermost members on."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in members:
        yield (*path, key)
        if isinstance(member, dict | list):
            yield from places(member, (*path, key))


def damaged(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """`record` with one member, anywhere, gone or replaced by something odd."""
    for *path, last in places(record):
        for value in ("gone", *ODD):
            changed = copy.deepcopy(record)
            parent = changed
            for key in path:
                parent = parent[key]
            if value == "gone":
                del parent[last]
            else:
                parent[last] = value
            yield changed


def readable(kind: str, record: dict[str, Any]) -> Question | None:
    try:
        return FORMATS[kind](record)
    except BadRecord:
        return None


LISTED = {  # the answers of a record, where each is one entry of one list
    "qampari": lambda record: record["answer_list"],
    "quest": lambda record: record["docs"],
    "mintaka": lambda record: record["answer"]["answer"],
}


@pytest.mark.parametrize("name", NAMES)
def test_one_damage(name: str) -> None:
    kind, records = name.split(".")[0], [r.value for r in read_records(FILES / name) if r.value]
    rows, lost = [], 0
    for record in records:
        for changed in damaged(record):
            found = readable(kind, changed)
            if found is None:
                lost += 1
                continue
            assert found.question and found.source and as_gold(found.gold) == found.gold
            if kind in LISTED:
                counted = len(found.gold) + found.answers.answers_left_out.total()
                assert counted == len(LISTED[kind](changed))
            own = found.messages or [{"role": "user", "content": found.question}]
            rows.append(slime_row(found, own, "id"))
    assert rows and lost
    arrow.Table.from_pylist(rows, schema=row_schema(messages=True))
    json.dumps(rows, ensure_ascii=False).encode()  # no half characters
