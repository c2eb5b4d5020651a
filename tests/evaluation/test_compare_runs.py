"""Two evaluations, paired question by question."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.answers import log_line, write_log

from spader_slime import cli
from spader_slime.errors import DataError
from spader_slime.evaluation.compare import compare

OSLO = '<answer>["Oslo"]</answer>'
BOTH = '<answer>["Oslo", "Bergen"]</answer>'


def runs(home: Path) -> tuple[Path, Path]:
    """The second answers questions 0 to 3 better and 4 worse, and has another place for each."""
    first = [log_line(n, [OSLO]) for n in range(6)] + [log_line(9, [BOTH], question="alone")]
    second = [log_line(n, [BOTH if n < 4 else OSLO]) for n in range(5)]
    second[4] = log_line(4, ["?"])
    moved = [{**line, "number": line["number"] + 100} for line in second]
    return write_log(home / "a", first), write_log(home / "b", moved)


def test_questions_are_paired_by_their_words(tmp_path: Path) -> None:
    found = compare(*runs(tmp_path), "ours")
    assert (found.pairs, found.only) == (5, (2, 0))
    recall = found.differences["recall"]
    assert (recall.better, recall.worse) == (4, 1)
    assert recall.first.mean == 0.5
    assert recall.second.mean == pytest.approx(0.8)
    assert recall.by.mean == pytest.approx(0.3)
    assert recall.by.low is not None and recall.by.low < 0.3 < (recall.by.high or 0)
    assert "recall_head" not in found.differences


def test_the_same_question_twice_is_two_pairs(tmp_path: Path) -> None:
    twice = [log_line(n, [OSLO], question="Which?") for n in range(2)]
    folders = [write_log(tmp_path / name, twice) for name in "ab"]
    assert compare(folders[0], folders[1], "ours").pairs == 2


def test_nothing_in_common_is_refused(tmp_path: Path) -> None:
    folders = [write_log(tmp_path / n, [log_line(0, [OSLO], dataset=n)]) for n in "ab"]
    with pytest.raises(DataError, match="no question in common"):
        compare(folders[0], folders[1], "ours")


def test_other_gold_answers_are_refused(tmp_path: Path) -> None:
    first = write_log(tmp_path / "a", [log_line(0, [OSLO])])
    second = write_log(tmp_path / "b", [log_line(0, [OSLO], gold=[["Oslo"]])])
    with pytest.raises(DataError, match="different gold answers"):
        compare(first, second, "ours")


def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = runs(tmp_path)
    out = tmp_path / "out"
    assert cli.main(["evaluate", "compare", str(first), str(second), "--out", str(out)]) == 0
    assert (
        "5 questions in both; 2 only in the first, 0 only in the second." in capsys.readouterr().out
    )
    assert {path.name for path in out.iterdir()} == {
        f"comparison.{s}" for s in ("json", "md", "html")
    }
    assert json.loads((out / "comparison.json").read_text())["pairs"] == 5
    assert cli.main(["evaluate", "compare", str(first), str(tmp_path)]) == cli.USER_FAULT
    assert "no answers" in capsys.readouterr().err
