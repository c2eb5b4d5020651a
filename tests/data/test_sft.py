"""`data sft` and `data sft-check`: files, counts, what is printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.sft_template import TOOLS, said, tau_chat, tool_tokenizer

from spader_slime.cli import main
from spader_slime.data.reading import read_records
from spader_slime.data.sft import SHARED, TRIMMED, SftOptions, check_chats, convert_chats
from spader_slime.data.sft_render import ChatRenderer
from spader_slime.errors import DataError

INLINE = "<search>q</search> <information>d</information> <answer>z</answer>"
PLAIN = [said("user", "2+2"), said("assistant", "4")]
ROWS: list[Any] = [
    {"messages": [*tau_chat(), said("user", "###STOP###")], "tools": TOOLS, "source": "tau"},
    {"messages": PLAIN, "source": "math"},
    {"messages": [said("user", "q"), said("assistant", INLINE)], "metadata": {"source": "r1"}},
    {"messages": PLAIN[:1]},
    {"messages": PLAIN[1:]},
    {"messages": [*PLAIN, said("user", "5" * 300), said("assistant", "long")]},
    "no chat",
]
SUFFIXES = (".parquet", ".jsonl")


def chats(folder: Path, rows: Sequence[Any] = ROWS) -> Path:
    path = folder / "chats.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tool_tokenizer().save_pretrained(folder)
    (folder / "config.json").write_text('{"model_type": "qwen3"}')
    return folder


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_counts_add_up(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"train{suffix}"
    renderer = ChatRenderer(tool_tokenizer())
    report = convert_chats([chats(tmp_path)], out, SftOptions(renderer=renderer, max_tokens=800))
    assert report.rows_in == len(ROWS) and report.rows_out == 4
    assert report.left_out == {"no assistant turn": 1}
    assert report.bad == {"roles out of order": 1, "unreadable": 1}
    assert report.notes == {SHARED: 1, TRIMMED: 1}
    assert report.sources == {"tau": 1, "math": 1, "r1": 1, "unnamed": 1}
    assert report.turns == {3: 1, 1: 2, 2: 1}
    written = json.loads((tmp_path / f"train{suffix}.report.json").read_text("utf-8"))
    assert written["rows_out"] == report.rows_out and written["tokens"]["items"] == 4
    assert written["examples"]["roles out of order"] == [
        "chats.jsonl, line 5: message 1: assistant at the beginning"
    ]


def test_rows_that_are_too_long_are_left_out(tmp_path: Path) -> None:
    options = SftOptions(renderer=ChatRenderer(tool_tokenizer()), max_tokens=300)
    report = convert_chats([chats(tmp_path)], tmp_path / "train.jsonl", options)
    assert report.left_out["longer than 300 tokens"] == 2 and report.rows_out == 2
    assert max(report.tokens) <= 300


def test_what_slime_reads(tmp_path: Path) -> None:
    rows = {}
    for suffix in SUFFIXES:
        convert_chats([chats(tmp_path)], tmp_path / f"train{suffix}", SftOptions(source="mine"))
        rows[suffix] = [r.value or {} for r in read_records(tmp_path / f"train{suffix}")]
    for row in (*rows[".parquet"], *rows[".jsonl"]):
        assert isinstance(json.loads(row["tools"]), list)  # slime refuses null
        assert row["metadata"]["source_name"] == "mine"
    assert [row["metadata"]["observation_tag"] for row in rows[".jsonl"][:3]] == [
        "", "", "information",
    ]  # fmt: skip
    flat, nested = rows[".parquet"][0]["messages"], rows[".jsonl"][0]["messages"]
    assert {message["step_loss_mask"] for message in flat} == {1}  # a null would be 0 to slime
    arguments = [m["tool_calls"][0]["function"]["arguments"] for m in (flat[2], nested[2])]
    assert arguments == ['{"day": "é"}', {"day": "é"}]
    assert not any(value is None for message in nested for value in message.values())


def test_strict_ends_at_the_first_broken_row(tmp_path: Path) -> None:
    out = tmp_path / "train.parquet"
    with pytest.raises(DataError, match=r"line 5: roles out of order"):
        convert_chats([chats(tmp_path)], out, SftOptions(strict=True))
    assert not out.exists()


@pytest.mark.parametrize(
    ("out", "rows", "message"),
    [
        ("chats.jsonl", ROWS, "is also an input"),
        ("train.csv", ROWS, "must end in .parquet or .jsonl"),
        ("train.jsonl", ROWS[3:5], "no row is left to write; rows in: 2, rows out: 0"),
    ],
)
def test_files_that_can_not_be_made(
    tmp_path: Path, out: str, rows: list[Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        convert_chats([chats(tmp_path, rows)], tmp_path / out, SftOptions())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_written_file_passes_the_check(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"train{suffix}"
    renderer, learned = ChatRenderer(tool_tokenizer()), []
    made = convert_chats([chats(tmp_path)], out, SftOptions(renderer=renderer))
    found = check_chats(out, renderer, None, lambda place, rendered: learned.append(rendered))
    assert found.rows_in == found.rows_out == len(learned) == made.rows_out
    assert (found.tokens, found.learned) == (made.tokens, made.learned)


def test_the_chat_in_the_example(tmp_path: Path) -> None:
    readme = Path(__file__).parents[2] / "examples/eopd_search/README.md"
    shown = json.loads(readme.read_text("utf-8").split("```json\n")[1].split("```")[0])
    options = SftOptions(renderer=ChatRenderer(tool_tokenizer()))
    report = convert_chats([chats(tmp_path, [shown])], tmp_path / "train.parquet", options)
    assert report.sources == {"tau": 1} and report.turns == {2: 1}


BAD_ROWS = {
    "tools that are null": {"messages": PLAIN, "tools": None},
    "messages after the last assistant turn": {"messages": [*PLAIN, PLAIN[0]], "tools": "[]"},
    "control token in a message": {"messages": [said("user", "<|im_end|>"), PLAIN[1]], "tools": []},
    "longer than 50 tokens": {"messages": [said("user", "x" * 50), PLAIN[1]], "tools": "[]"},
    "roles out of order": {"messages": PLAIN[1:], "tools": "[]"},
    "not as `data sft` writes it": {"conversations": PLAIN},
    "no turn to learn from": {"messages": [PLAIN[0], PLAIN[1] | {"step_loss_mask": None}]},
}


@pytest.mark.parametrize("reason", BAD_ROWS)
def test_the_check_finds_rows_that_training_would_stumble_over(tmp_path: Path, reason: str) -> None:
    sound = {"messages": PLAIN, "tools": "[]", "metadata": None}
    found = check_chats(
        chats(tmp_path, [sound, BAD_ROWS[reason]]), ChatRenderer(tool_tokenizer()), 50
    )
    assert found.rows_out == 1 and [*found.bad, *found.left_out] == [reason]


def test_the_commands(tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a b.parquet"
    words = ["--in", str(chats(tmp_path)), "--out", str(out), "--tokenizer", str(model)]
    assert main(["data", "sft", *words]) == 0
    assert "rows in: 7, rows out: 4\n" in capsys.readouterr().out
    assert main(["data", "sft-check", str(out), "--tokenizer", str(model), "--show", "3"]) == 0
    said = capsys.readouterr().out
    assert "⟦<think>\n\n</think>\n\nDone.⟧⟦<|im_end|>⟧\n<|im_start|>user\nThanks." in said
    assert "⟦<search>q</search>⟧ <information>d</information> ⟦<answer>z</answer>⟧" in said
    assert "a b.parquet, row 4;" not in said
    short = [str(out), "--tokenizer", str(model), "--show", "0", "--max-tokens", "90"]
    assert main(["data", "sft-check", *short]) == 2
    streams = capsys.readouterr()
    assert "⟦" not in streams.out
    assert streams.err.endswith(f"rows of {out} can't be learned from\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-tokens", "5"], "a value together with --tokenizer"),
        (["--tokenizer", "nowhere/at/all"], "no tokenizer in nowhere/at/all"),
    ],
)
def test_what_a_user_can_get_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    out = str(tmp_path / "train.jsonl")
    assert main(["data", "sft", "--in", str(chats(tmp_path)), "--out", out, *words]) == 2
    assert message in capsys.readouterr().err
