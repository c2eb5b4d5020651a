"""Questions from slime rows and from the public formats as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.answers import log_line, write_log

from spader_slime import cli
from spader_slime.errors import DataError
from spader_slime.evaluation.questions import DataSet, read_data_set
from spader_slime.evaluation.results import results_of

ONE = [{"answer_text": "Oslo", "aliases": ["Oslo", "Kristiania"], "tier": "head"}]
RECORDS: dict[str, Any] = {
    "qampari": {"qid": "7", "question_text": "Which?", "answer_list": ONE},
    "quest": {"query": "Which?", "docs": ["Oslo (city)"]},
    "mintaka": {
        "id": "7",
        "question": "Which?",
        "answer": {"answerType": "entity", "answer": [{"name": "Q1", "label": {"en": "Oslo"}}]},
    },
    "webqsp": {
        "QuestionId": "7",
        "RawQuestion": "Which?",
        "ProcessedQuestion": "which",
        "Parses": [{"Answers": [{"AnswerArgument": "m.1", "EntityName": "Oslo"}]}],
    },
    "search_r1": {"id": "7", "question": "Which?", "golden_answers": ["Oslo"]},
    "spader": {"question": "Which?", "ground_truth": [["Oslo"]], "data_source": "quest"},
}


def read(folder: Path, *records: Any) -> DataSet:
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return read_data_set("test", path)


@pytest.mark.parametrize("kind", RECORDS)
def test_a_public_format_is_known_by_its_fields(kind: str, tmp_path: Path) -> None:
    (asked,) = read(tmp_path, RECORDS[kind]).questions
    assert str(asked.question).lower().startswith("which")
    assert "Oslo" in [name.removesuffix(" (city)") for name in asked.gold[0]]
    assert asked.reference.source == ("quest" if kind == "spader" else kind)


def test_converted_rows_ask_the_same(tmp_path: Path) -> None:
    raw = tmp_path / "questions.jsonl"
    own = read(tmp_path, RECORDS["qampari"]).questions[0]
    for out in ("rows.jsonl", "rows.parquet"):
        given = ["--format", "qampari", "--in", str(raw), "--out", str(tmp_path / out)]
        assert cli.main(["data", "convert", *given]) == 0
        row = read_data_set("test", tmp_path / out).questions[0]
        assert row.reference == own.reference and row.tiers == own.tiers == ("head",)
        assert (row.id, row.question) == (own.id, own.question) == ("7", "Which?")
        assert isinstance(row.prompt, list) and own.prompt == "Which?"


def test_rows_without_answers_are_counted_and_told(tmp_path: Path) -> None:
    empty = {**RECORDS["qampari"], "answer_list": []}
    data = read(tmp_path, RECORDS["qampari"], empty, RECORDS["qampari"])
    assert [asked.number for asked in data.questions] == [0, 1]
    assert data.describe()["left_out"] == {"no answers": 1}
    folder = write_log(tmp_path / "run", [log_line(0, ["?"])])
    settings = json.loads((folder / "settings.json").read_text())
    settings["data"] = {"test": data.describe()}
    (folder / "settings.json").write_text(json.dumps(settings))
    assert "Rows of test left out: 1 x no answers." in results_of(folder, "ours").notes


FAULTS = {
    "neither a row": [{"text": "?"}],
    "line 2: no prompt": [{"prompt": "a", "label": [["b"]]}, {"label": [["b"]]}],
    "line 2": [RECORDS["qampari"], {"qid": "8"}],
    "no question": [],
    "1 tiers for 2": [{"prompt": "a", "label": ["b", "c"], "metadata": {"tiers": ["head"]}}],
}


@pytest.mark.parametrize("said", FAULTS)
def test_what_cannot_be_read_is_told_with_its_place(said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        read(tmp_path, *FAULTS[said])
