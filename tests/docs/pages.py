"""The hand-written and generated pages, as tests read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^    [^\n]+\n)+", re.MULTILINE)
COMMENT = re.compile(r"(?:^|\s)#.*")


def pages() -> list[Path]:
    """Every Markdown page of the repository."""
    folders = (ROOT / "docs", ROOT / "examples", ROOT / "benchmarks")
    return [*ROOT.glob("*.md"), *(page for f in folders for page in sorted(f.rglob("*.md")))]


def name(page: Path) -> str:
    """A page as tests call it."""
    return str(page.relative_to(ROOT))


def prose(text: str) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", text)


def shell_lines(text: str) -> Iterator[str]:
    """Lines of a page's shell blocks, continuations joined, comments off."""
    blocks = [body for language, body in FENCE.findall(text) if language in ("bash", "sh", "")]
    blocks += INDENTED.findall(prose(text))
    for block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            if words := COMMENT.sub("", line).strip():
                yield words


def rows(text: str, heading: str) -> list[list[str]]:
    """Cells of the first table below a heading, without its first two lines."""
    section = text.split(f"\n{heading}\n", 1)[1]
    lines = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert lines, f"no table below {heading}"
    split = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in lines[0].splitlines()]
    return [[cell.strip() for cell in cells] for cells in split[2:]]
