"""Our SFT rollout beside slime's own, on what `data sft` writes (`on_sft.py`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from contracts.driving import drive, slime_or_skip
from support.sft_template import TOOLS, call, said, tau_chat, tool_tokenizer

from spader_slime.data.sft import SftOptions, convert_chats

SCRIPT = Path(__file__).with_name("on_sft.py")
INLINE = "<think>a</think><search>q</search>\n\n<information>d</information>\n\n<answer>z</answer>"
CHATS = {  # the parallel one is the only one with consecutive tool messages
    "plain": [said("user", "2+2"), said("assistant", "<think>\nx\n</think>\n\n4")],
    "turns": [
        said("system", "s"), said("user", "q"), said("assistant", "a"), said("user", "r"),
        said("assistant", "skip", weight=0), said("user", "t"), said("assistant", "b"),
    ],
    "calls": [
        said("user", "q"), said("assistant", "hm", tool_calls=[call("look", {"day": [1, "é"]})]),
        said("tool", "free"), said("assistant", "Free."),
    ],
    "parallel": tau_chat(),
    "inline": [said("user", "q"), said("assistant", INLINE + "<think>b</think>c")],
}  # fmt: skip
NAMES = tuple(CHATS)
TOKENIZER = tool_tokenizer()
Row = tuple[list[int], list[int]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """version; `SUFFIX WHOSE` -> name of the chat -> tokens, loss mask over all of them."""
    slime_or_skip()
    folder = tmp_path_factory.mktemp("sft")
    TOKENIZER.save_pretrained(folder / "model")
    (folder / "model/config.json").write_text('{"model_type": "qwen3"}')
    chats = folder / "chats.jsonl"
    rows = [{"messages": messages, "tools": TOOLS} for messages in CHATS.values()]
    chats.write_text("\n".join(map(json.dumps, rows)))
    files = [folder / f"train{suffix}" for suffix in (".parquet", ".jsonl")]
    for file in files:
        assert convert_chats([chats], file, SftOptions()).rows_out == len(CHATS)
    read = drive(SCRIPT, folder / "out.json", str(folder / "model"), *map(str, files))
    result: dict[str, Any] = {"version": read["version"]}
    for file in files:
        for whose in ("slime", "ours"):
            whole = [(t, [0] * (len(t) - n) + m) for t, m, n in read[f"{file} {whose}"]]
            result[f"{file.suffix} {whose}"] = dict(zip(NAMES, whole, strict=True))
    return result


def text(tokens: list[int]) -> str:
    return str(TOKENIZER.decode(tokens))


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
@pytest.mark.parametrize("name", NAMES[:4])
def test_slimes_tokens(found: dict[str, Any], suffix: str, name: str) -> None:
    slime, ours = found[f"{suffix} slime"][name], found[f"{suffix} ours"][name]
    if name == "parallel" and found["version"] == "v0.3.1":
        between = "free\n</tool_response><|im_end|>\n<|im_start|>user\n<tool_response>\npaid"
        assert between in text(slime[0]) and between not in text(ours[0])
        return
    assert ours[0] == slime[0]
    differing = {n for n, inside in enumerate(ours[1]) if inside != slime[1][n]}
    after_turns = {n for n in differing if text(ours[0][n - 1 : n + 1]) == "<|im_end|>\n"}
    assert differing == after_turns and differing  # slime learns the line break after a turn
    assert not any(ours[1][n] for n in differing)


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_observations_inside_a_turn(found: dict[str, Any], suffix: str) -> None:
    slime, ours = found[f"{suffix} slime"]["inline"], found[f"{suffix} ours"]["inline"]
    assert "<search>q" not in text(slime[0])  # the template dropped it
    assert INLINE in text(ours[0])
    shown = "".join(text([t]) for t, inside in zip(*ours, strict=True) if inside)
    assert "<search>q" in shown and "information" not in shown


def test_both_kinds_of_file_are_the_same(found: dict[str, Any]) -> None:
    assert found[".parquet ours"] == found[".jsonl ours"]
    assert found[".parquet slime"] == found[".jsonl slime"]
