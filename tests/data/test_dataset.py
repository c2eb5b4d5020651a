"""slime's Dataset class reads what the converters write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from contracts.driving import drive, slime_or_skip

from spader_slime.data.convert import convert
from spader_slime.data.rows import prompter

FILES = Path(__file__).parent / "files"
SCRIPT = Path(__file__).with_name("on_dataset.py")


def messages(question: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": "Search."}, {"role": "user", "content": question}]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """`FORMAT PROMPT SUFFIX RENDERED` -> [id, prompt, label, source] of every sample."""
    slime_or_skip()  # before anything is converted
    folder = tmp_path_factory.mktemp("dataset")
    written = {}
    for path in sorted(FILES.iterdir()):
        kind = path.name.split(".")[0]
        for prompt in ("messages", "question"):
            for suffix in (".parquet", ".jsonl"):
                out = folder / f"{kind}-{prompt}{suffix}"
                made = prompter(prompt, messages)
                convert(kind, [path], out, made, messages=prompt == "messages")
                written[str(out)] = f"{kind} {prompt} {suffix}"
    found = drive(SCRIPT, folder / "read.json", *written)
    return {
        f"{name} {rendered}": found[f"{path} {rendered}"]
        for path, name in written.items()
        for rendered in (False, True)
    }


def test_both_kinds_of_file_are_the_same_to_slime(read: dict[str, list[Any]]) -> None:
    for name, samples in read.items():
        assert samples, name
        assert samples == read[name.replace(".parquet", ".jsonl")], name


def test_samples_are_what_our_hooks_take(read: dict[str, list[Any]]) -> None:
    asked = {sample[0]: sample[1] for sample in read["quest question .jsonl False"]}
    assert asked["quest-1"] == "Films of 1966 set in Oslo"
    first = read["quest messages .parquet False"][0]
    gold = [["Winter Night (1966 film)", "Winter Night"], ["Hunger"]]
    assert first == ["quest-1", messages(asked["quest-1"]), gold, "quest"]
    rendered = read["quest messages .parquet True"][0][1]
    assert rendered.startswith("<|im_start|>system\nSearch.<|im_end|>\n<|im_start|>user\nFilms")
