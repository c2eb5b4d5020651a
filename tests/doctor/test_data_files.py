"""Prompt files, read as slime reads them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from doctor.setups import rows, write_rows

from spader_slime.doctor import data_files
from spader_slime.doctor.data_files import named_files, read_rows
from spader_slime.doctor.facts import DataFile
from spader_slime.doctor.flags import read_flags


def file(path: Path | str) -> DataFile:
    return DataFile("train", str(path), "prompt", "label", "metadata")


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_rows_and_columns(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    write_rows(path, [{**row, "other": 1} for row in rows(30, "Peru")])
    read = read_rows(file(path))
    assert list(read.rows) == rows(30, "Peru")
    assert read.columns == ("prompt", "label", "other") and read.complete and not read.fault
    sliced = [read_rows(file(f"{path}@[{part}]")).rows for part in ("5:9", ":3", "-2:")]
    assert sliced == [read.rows[5:9], read.rows[:3], read.rows[-2:]]


def test_only_so_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "MAX_ROWS", 10)
    write_rows(tmp_path / "a.jsonl", rows(12, "Peru"))
    read = read_rows(file(tmp_path / "a.jsonl"))
    assert (len(read.rows), read.complete) == (10, False)


def test_bad_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"prompt": "q"}\n\nnot json\n[1]\n{"prompt": "r"}\n')
    read = read_rows(file(path))
    assert (len(read.rows), read.unreadable) == (2, 2)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"x", "jsonl and .parquet"),
        ("missing.jsonl", None, "No such file"),
        ("a.jsonl", b"\xff\xfe", "utf-8"),
        ("a.parquet", b"no parquet", "parquet file"),
    ],
)
def test_other_files_say_why(tmp_path: Path, name: str, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert words in read_rows(file(tmp_path / name)).fault


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path / "a.parquet", rows(2, "Peru"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install pyarrow" in read_rows(file(tmp_path / "a.parquet")).fault


def test_names_and_keys_of_the_flags(tmp_path: Path) -> None:
    words = "--prompt-data a.jsonl --input-key q --label-key l --eval-label-key m"
    eval_words = "--eval-prompt-data one b.jsonl two c.jsonl@[0:5]"
    train, one, two = named_files(read_flags(f"{words} {eval_words}".split()))
    assert train == DataFile("train", "a.jsonl", "q", "l", "metadata")
    assert one == DataFile("one", "b.jsonl", "q", "m", "metadata")
    assert two == replace(one, name="two", path="c.jsonl@[0:5]")


def test_sets_of_an_eval_config(tmp_path: Path) -> None:
    config = tmp_path / "eval.yaml"
    config.write_text(
        "eval:\n  defaults: {label_key: l}\n  datasets:\n"
        "    one: {path: a.jsonl}\n    two: {path: b.jsonl, input_key: q}\n"
    )
    one, two = named_files(read_flags(["--eval-config", str(config)]))
    assert one == DataFile("one", "a.jsonl", "input", "l", "metadata")
    assert two == DataFile("two", "b.jsonl", "q", "l", "metadata")
    config.write_text("eval: {}\n")
    (fault,) = named_files(read_flags(["--eval-config", str(config)]))
    assert "eval.datasets" in read_rows(fault).fault
