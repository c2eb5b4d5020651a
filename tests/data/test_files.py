"""Reading of files, checks and figures; the commands."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from support.rows import row, write

from spader_slime import cli
from spader_slime.data.check import check_file
from spader_slime.data.reading import read_records
from spader_slime.data.rows import DEFAULT_KEYS
from spader_slime.data.stats import file_stats
from spader_slime.errors import DataError

LINES = b'\xef\xbb\xbf{"a": 1}\r\n\n{"a": 2}\r\n'
ARRAY = b' [{"a": 1},\n {"a": 2}]\n'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.jsonl", LINES),
        ("x.json", LINES),  # some releases call lines .json
        ("x.json", ARRAY),
        ("x.jsonl", b'[{"a": 1}, {"a": 2}]'),
        ("x.json", b'{"data": [{"a": 1}, {"a": 2}]}'),
        ("x.json", b'{\n "Version": 1,\n "Questions": [{"a": 1}, {"a": 2}]}'),
        ("x.jsonl.gz", gzip.compress(LINES, mtime=0)),
        ("x.json.gz", gzip.compress(ARRAY, mtime=0)),
    ],
)
def test_what_is_inside_decides(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert [record.value for record in read_records(path)] == [{"a": 1}, {"a": 2}]


def test_bad_bytes_are_the_fault_of_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": "\xff"}\n' + b"[" * 100_000 + b'\n{"a": 4}\n')
    found = list(read_records(path))
    assert [record.value for record in found] == [{"a": 1}, None, None, {"a": 4}]
    assert found[1].place == "x.jsonl, line 2" and "utf-8" in found[1].fault


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.json", b'[{"a": 1}, {"a"', "not JSON"),
        ("x.json", b'{"b": 1,\n "a": 2}', "expected an array"),
        ("x.jsonl.gz", gzip.compress(LINES * 1000, mtime=0)[:-9], "broken gzip"),
        ("x.jsonl.gz", LINES, "broken gzip"),
        ("x.parquet", LINES, "not a parquet file"),
        ("x.csv", LINES, "must end in"),
        (None, b"", "no file"),
    ],
)
def test_broken_files(name: str | None, content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / (name or "nowhere.jsonl")
    if name:
        path.write_bytes(content)
    with pytest.raises(DataError, match=said):
        list(read_records(path))


SOUND = [
    row("Who?", "A", "B", id="1", source="x", tiers=["head", "tail"]),
    {**row("", "C", id="2"), "prompt": [{"role": "user", "content": "Question: Where to?"}]},
]
FAULTS = [
    ({"label": [["A"]]}, "no prompt under 'prompt'"),
    ({"prompt": [{"role": "user"}], "label": [["A"]]}, "neither text nor a list of role"),
    ({"prompt": "Who?"}, "no label under 'label'"),
    ({"prompt": "Who?", "label": "A"}, "gold must be a list"),
    ({"prompt": "Who?", "label": [["", None]]}, "no alias that is not blank"),
    ({"prompt": "Who?", "label": [["A"]], "metadata": "m"}, "is not a mapping"),
    (7, "not an object but int"),
]


def test_check_names_every_fault(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [*SOUND, *(fault for fault, _ in FAULTS)])
    found = check_file(path, DEFAULT_KEYS)
    assert (found.rows, len(found.faults)) == (9, 7)
    for number, (fault, (_, said)) in enumerate(zip(found.faults, FAULTS, strict=True), 3):
        assert fault.startswith(f"x.jsonl, line {number}: ") and said in fault


def test_check_remarks(tmp_path: Path) -> None:
    rows = [
        row("Who?", "A", id="1"),
        row("who", "?", "A", "B", id="1"),
        row("Which?", "The A", "a", tiers=["head"]),
        {**row("What?", "x"), "label": [["x", "y"], ["z", "y"]]},
        SOUND[1],
    ]
    found = check_file(write(tmp_path / "x.jsonl", rows), DEFAULT_KEYS)
    assert found.faults == []
    assert dict(found.warnings) == {
        "repeats the question of an earlier row": 1,
        "repeats the id of an earlier row": 1,
        "prompt of another kind (text, messages) than the first row's": 1,
        "an answer without a letter or digit can never be found": 1,
        "the same answer twice counts twice in recall": 1,
        "a name that two answers share finds both": 1,
        "tiers are not one per answer": 1,
    }


def test_stats(tmp_path: Path) -> None:
    found = file_stats(write(tmp_path / "x.jsonl", SOUND), DEFAULT_KEYS)
    assert found["prompts"] == {"text": 1, "messages": 1}
    assert found["tiers"] == {"head": 1, "tail": 1}
    answers = found["answers_per_question"]
    assert (answers["min"], answers["mean"], answers["max"]) == (1, 1.5, 2)
    assert found["words_per_question"]["total"] == 3  # "Who?", "Where to?"
    assert {name: part["rows"] for name, part in found["sources"].items()} == {"x": 1, "none": 1}


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = Path(__file__).parent / "files" / "spader.jsonl"
    out, folder = str(tmp_path / "train.parquet"), str(tmp_path / "parts")
    assert (
        cli.main(["data", "convert", "--format", "spader", "--in", str(source), "--out", out]) == 0
    )
    assert "rows in: 10, rows out: 6" in capsys.readouterr().out
    assert cli.main(["data", "check", out, out]) == 0
    assert "share: 6 questions, 3 gold sets" in capsys.readouterr().out
    assert cli.main(["data", "check", "--strict", out, out]) == 2
    assert "should be apart" in capsys.readouterr().err
    assert cli.main(["data", "stats", "--json", out]) == 0
    assert json.loads(capsys.readouterr().out)[out]["rows"] == 6
    assert cli.main(["data", "split", out, "--out", folder, "--parts", "a=2", "b=1"]) == 0
    assert "rows: a " in capsys.readouterr().out
    bad = write(tmp_path / "bad.jsonl", [fault for fault, _ in FAULTS])
    assert cli.main(["data", "check", str(bad)]) == 2
    assert capsys.readouterr().err == "spader-slime: 7 faults in 7 rows\n"
