"""Every converter on a file with every variant and fault of its format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from data.expected import EXPECTED, LABELS, REST

from spader_slime.agent.protocol import make_protocol
from spader_slime.algorithms.gold import as_gold
from spader_slime.config import AgentConfig
from spader_slime.data.convert import convert, report_path
from spader_slime.data.formats import FORMATS
from spader_slime.data.report import Report
from spader_slime.data.rows import prompter
from spader_slime.errors import DataError
from spader_slime.local.data_source import read_prompts

FILES = Path(__file__).parent / "files"


def run(name: str, out: Path, prompt: str = "messages", **options: Any) -> Report:
    """Convert a file of `FILES`, or the file at an absolute path, by the format of its name."""
    messages = make_protocol(AgentConfig()).messages
    made = prompter(prompt, messages)
    kind = Path(name).name.split(".")[0]
    return convert(kind, [FILES / name], out, made, messages=prompt != "question", **options)


def rows(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return list(parquet.read_table(path).to_pylist())
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_every_format_has_a_file() -> None:
    assert {name.split(".")[0] for name in EXPECTED} == set(FORMATS)


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_counts_and_labels(name: str, suffix: str, tmp_path: Path) -> None:
    out = tmp_path / f"train{suffix}"
    report = run(name, out)
    rows_in, rows_out, bad, left_out, answers = EXPECTED[name]
    assert (report.rows_in, report.rows_out) == (rows_in, rows_out)
    assert (report.bad, report.left_out, report.answers_left_out) == (bad, left_out, answers)
    assert rows_in == rows_out + sum(bad.values()) + sum(left_out.values())
    rest = (report.aliases_left_out, report.notes, report.repeated, report.sources)
    assert rest == REST[name]
    written = rows(out)
    assert [row["label"] for row in written] == LABELS[name]
    assert all(as_gold(row["label"]) == row["label"] for row in written)
    ids = [row["metadata"]["id"] for row in written]
    assert all(ids) and len(set(ids)) == len(ids)
    assert all(row["prompt"][-1]["content"] == row["metadata"]["question"] for row in written)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_report_names_every_row_that_is_missing(name: str, tmp_path: Path) -> None:
    out = tmp_path / "train.jsonl"
    report = run(name, out)
    stored = json.loads(report_path(out).read_text("utf-8"))
    assert stored == json.loads(json.dumps(report.to_dict()))
    places = [place for found in stored["examples"].values() for place in found]
    assert len(places) == stored["rows_in"] - stored["rows_out"]
    lost = {**stored["bad"], **stored["left_out"]}
    assert [reason for reason in lost if reason not in "\n".join(report.lines())] == []
    answers = stored["answers_per_question"]
    assert answers["total"] == sum(len(label) for label in LABELS[name])
    assert answers["items"] == sum(answers["bins"].values()) == stored["rows_out"]
    names = [len(entity) for label in LABELS[name] for entity in label]
    assert stored["aliases_per_answer"]["total"] == sum(names)


def test_the_report_in_the_docs_is_this_one(tmp_path: Path) -> None:
    lines = run("qampari.jsonl", tmp_path / "train.jsonl").lines()
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text("utf-8")
    block = page.partition("```text\n")[2].partition("```")[0].splitlines()
    told = [[line for line in part if "not JSON" not in line] for part in (block, lines)]
    assert told[0] == told[1]  # how a JSON fault is worded is Python's


def test_a_broken_line_is_named_and_ends_a_strict_conversion(tmp_path: Path) -> None:
    out = tmp_path / "train.parquet"
    report = run("qampari.jsonl", out)
    assert report.examples["unreadable"][0].startswith("qampari.jsonl, line 6: not JSON")
    out.unlink()
    with pytest.raises(DataError, match=r"qampari\.jsonl, line 6: unreadable: not JSON"):
        run("qampari.jsonl", out, strict=True)
    assert not out.exists() and [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_sound_rows_that_can_not_be_used_do_not_end_it(tmp_path: Path) -> None:
    """WebQSP's questions without answers are left out under --strict too."""
    whole = json.loads((FILES / "webqsp.json").read_text("utf-8"))
    broken = ("W-7", "W-10")
    whole["Questions"] = [q for q in whole["Questions"] if q["QuestionId"] not in broken]
    path = tmp_path / "webqsp.json"
    path.write_text(json.dumps(whole), "utf-8")  # on one line, as some releases
    report = run(str(path), tmp_path / "train.jsonl", strict=True)
    assert (report.rows_out, report.left_out.total(), report.bad.total()) == (4, 4, 0)


def test_official_references(tmp_path: Path) -> None:
    found = {}
    for name in EXPECTED:
        out = tmp_path / f"{name}.parquet"
        run(name, out)
        found[name] = [row["metadata"]["official"] for row in rows(out)]
    assert found["qampari.jsonl"][:3] == [
        [[["Per Holm", "P. Holm"], ["Ruiz, Ana"]]],  # the answer's text is no alias there
        [[["Tana"], ["Alta", "Alta River", "Alta River"], ["tana"], ["?"]]],
        [[["Eighteen sixteen"], ["1783"]]],
    ]
    assert found["qampari.jsonl"][5] == [[["Alta River"], ["Tana"], [], []]]
    assert found["webqsp.json"][3] == [[["7"]]]
    assert found["quest.jsonl"][0] == [[["Winter Night (1966 film)"], ["Hunger"]]]
    assert found["mintaka.json"][1] == [[["Ana Ivanovic Rafael Nadal"]]]
    assert found["webqsp.json"][0] == [
        [["m.01", "Ada Berg"], ["m.02", "Bo Dahl"]],
        [["m.01", "Ada Berg"], ["1901-05-02"]],
        [["m.03", "Cato Eng"]],
    ]
    assert found["webqsp.json"][2] == [[], [["42"]]]
    assert found["search_r1.jsonl"] == [None] * 5


def test_prompts(tmp_path: Path) -> None:
    out = tmp_path / "a.parquet"
    run("search_r1.jsonl", out, prompt="question")
    assert rows(out)[1]["prompt"] == "Where is the fjord?"
    report = run("search_r1.jsonl", out, prompt="own")
    assert report.left_out["no prompt messages of its own"] == 3
    assert rows(out)[1]["prompt"] == [
        {"role": "system", "content": "Search."},
        {"role": "user", "content": "Think first. Question: Where is the fjord?\n"},
    ]


def test_the_embedded_host_reads_what_was_written(tmp_path: Path) -> None:
    out = tmp_path / "train.jsonl"
    run("qampari.jsonl", out, source="mine")
    samples = read_prompts(str(out))
    assert [sample.label for sample in samples] == LABELS["qampari.jsonl"]
    assert samples[1].metadata["tiers"] == ["head", "tail"]
    assert {sample.metadata["source"] for sample in samples} == {"mine"}


def test_nothing_left_to_write(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no row is left.*7 x no question"):
        convert("qampari", [FILES / "quest.jsonl"], tmp_path / "x.jsonl", lambda q: q.question)
    path = FILES / "quest.jsonl"
    with pytest.raises(DataError, match="is also an input"):
        convert("quest", [path], path, lambda q: q.question)
    with pytest.raises(DataError, match=r"must end in \.parquet or \.jsonl"):
        convert("quest", [FILES / "quest.jsonl"], tmp_path / "x.csv", lambda q: q.question)
    assert list(tmp_path.iterdir()) == []
