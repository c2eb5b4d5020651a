"""Splits that share nothing, and what files share."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from support.rows import row, write

from spader_slime.data.leaks import leaks, seen_in
from spader_slime.data.rows import DEFAULT_KEYS, sound_rows
from spader_slime.data.split import split_file
from spader_slime.errors import DataError

ROWS = [
    *(row(f"Question {i}?", f"answer {i}", f"other {i}") for i in range(40)),
    *(row(f"question {i}", f"elsewhere {i}") for i in range(5)),  # same questions as above
    *(row(f"Reworded {i}", f"Other {i}", f"The answer {i}") for i in range(3, 8)),  # same gold
]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_split_keeps_apart_what_would_leak(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"all{suffix}"
    rows = [{**row, "metadata": {"n": i}} for i, row in enumerate(ROWS)]
    if suffix == ".parquet":
        parquet.write_table(arrow.Table.from_pylist(rows), path)
    else:
        write(path, rows)
    found = split_file(path, tmp_path / "a", {"train": 8, "dev": 1, "test": 1}, seed=3)
    assert sum(found.parts.values()) == len(ROWS) and found.leaks == []
    assert found.parts["train"] in range(37, 44) and min(found.parts.values()) >= 3
    assert (found.groups, found.joined) == (40, 18)
    files = [tmp_path / "a" / f"{name}{suffix}" for name in found.parts]
    parts = [[r.record["metadata"]["n"] for r in sound_rows(file)] for file in files]
    assert sorted(n for part in parts for n in part) == list(range(len(ROWS)))
    part_of = {n: number for number, part in enumerate(parts) for n in part}
    assert all(part_of[i] == part_of[40 + i] for i in range(5))
    assert all(part_of[i] == part_of[45 + i - 3] for i in range(3, 8))
    again = split_file(path, tmp_path / "b", {"train": 8, "dev": 1, "test": 1}, seed=3)
    assert again == found
    other = split_file(path, tmp_path / "c", {"train": 8, "dev": 1, "test": 1}, seed=4)
    assert [r.question for r in sound_rows(tmp_path / "c" / f"dev{suffix}")] != [
        r.question for r in sound_rows(files[1])
    ] and other.parts


def test_split_by_question_reports_the_gold_sets_that_are_shared(tmp_path: Path) -> None:
    rows = [row(f"{i}?", "same", "gold", str(i // 10)) for i in range(20)]
    rows += [row(f"single {i}?", "one") for i in range(10)]
    path = write(tmp_path / "all.jsonl", rows)
    found = split_file(path, tmp_path / "a", {"x": 1, "y": 1}, apart="question")
    assert [len(leak.questions) for leak in found.leaks] == [0]
    assert (len(found.leaks[0].golds), found.leaks[0].single_golds) == (2, 1)
    stored = json.loads((tmp_path / "a" / "split.json").read_text("utf-8"))
    assert stored["parts"] == {"x": 15, "y": 15} and len(stored["leaks"][0]["golds"]) == 2


def test_split_against_other_files(tmp_path: Path) -> None:
    path = write(tmp_path / "all.jsonl", ROWS[:40])
    test = write(tmp_path / "test.jsonl", [row("QUESTION 7", "z"), row("?", "other 9", "answer 9")])
    found = split_file(path, tmp_path / "a", {"x": 1}, against=[test])
    assert (found.left_out, found.parts, found.leaks) == (2, {"x": 38}, [])
    assert len(leaks([seen_in(path, DEFAULT_KEYS), seen_in(test, DEFAULT_KEYS)])[0].golds) == 1


def test_splits_that_can_not_be_made(tmp_path: Path) -> None:
    path = write(tmp_path / "all.jsonl", [row(f"{i}?", "same") for i in range(9)])
    with pytest.raises(DataError, match="too few rows that can be apart: none for"):
        split_file(path, tmp_path / "a", {"x": 1, "y": 1})
    with pytest.raises(DataError, match="would be overwritten"):
        split_file(path, tmp_path, {"all": 1})
    with pytest.raises(DataError, match="above 0"):
        split_file(path, tmp_path / "a", {"x": 1, "y": 0})
