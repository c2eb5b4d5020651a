"""Commands that pages show: `spader-slime` reads them, and the files that they start are there."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from docs.pages import ROOT, name, pages, prose, shell_lines

from spader_slime.cli import make_parser

PROGRAM = "spader-slime"
INLINE = re.compile(rf"`{PROGRAM} ([^`]+)`")
FILES = re.compile(r"(?:launch|examples|benchmarks|tests)/[\w./-]+\.(?:sh|sbatch|py|ya?ml)\b")
ENDS = (";", "|", "&&", "||", "&", ">", "2>", "<")


def calls(text: str) -> Iterator[list[str]]:
    """Arguments of every whole `spader-slime` command in a page's shell blocks."""
    for line in shell_lines(text):
        if PROGRAM not in line:
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&<>")
        lexer.whitespace_split = True
        words = list(lexer)
        for place, word in enumerate(words):
            if word == PROGRAM:
                rest = words[place + 1 :]
                end = next((i for i, found in enumerate(rest) if found in ENDS), len(rest))
                yield [found for found in rest[:end] if found != "..."]


def refusal(words: Sequence[str]) -> str:
    """What the command line says against these arguments, or ""."""
    try:
        make_parser().parse_args(words)
    except SystemExit as ended:
        return f"exit code {ended.code}: {shlex.join(words)}" if ended.code else ""
    return ""


def unknown(words: Sequence[str]) -> list[str]:
    """Of a command that is only named: its names and options that do not exist."""
    parser: argparse.ArgumentParser = make_parser()
    wrong = []
    for word in words:
        tree = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        if tree and word in tree[0].choices:
            parser = tree[0].choices[word]
            continue
        if "-" not in parser.prefix_chars:  # all that follows is passed on
            break
        known = word in parser._option_string_actions or not word.startswith("-")
        if not known or (tree and not parser.get_default("run")):
            wrong.append(word)
    return wrong


@pytest.mark.parametrize("page", pages(), ids=name)
def test_whole_commands_are_read(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [said for words in calls(text) if (said := refusal(words))] == []


@pytest.mark.parametrize("page", pages(), ids=name)
def test_commands_named_in_the_text_exist(page: Path) -> None:
    text = prose(page.read_text(encoding="utf-8"))
    named = [shlex.split(inline) for inline in INLINE.findall(text)]
    assert [words for words in named if unknown([w for w in words if w != "..."])] == []


@pytest.mark.parametrize("page", pages(), ids=name)
def test_files_of_commands_are_there(page: Path) -> None:
    lines = "\n".join(shell_lines(page.read_text(encoding="utf-8")))
    assert [file for file in FILES.findall(lines) if not (ROOT / file).exists()] == []


def test_a_wrong_command_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    page = (
        "```bash\nA=1 spader-slime world \\\n  d --size huge # no\n"
        "spader-slime world d | cat\n```\n"
        "\n    spader-slime index search q --index d > out\n"
    )
    found = list(calls(page))
    assert found == [
        ["world", "d", "--size", "huge"],
        ["world", "d"],
        ["index", "search", "q", "--index", "d"],
    ]
    assert [bool(refusal(words)) for words in found] == [True, False, False]
    assert "huge" in capsys.readouterr().err
    assert unknown(["data", "check", "--stict"]) == ["--stict"]
    assert unknown(["data", "chek"]) == ["chek"]
