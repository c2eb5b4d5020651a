"""Finding actions in an assistant's turn."""

from __future__ import annotations

import re
from dataclasses import dataclass

_THINK = re.compile(r"(</?think>)")


@dataclass(frozen=True)
class Block:
    """`<name>content</name>`; content None: never closed."""

    name: str
    content: str | None


def outside_think(text: str) -> tuple[str, str]:
    """Split off what is thought: (text outside of think blocks, text after an unclosed <think>)."""
    said: list[str] = []
    thought, inside = "", False
    for piece in _THINK.split(text):
        if _THINK.fullmatch(piece):
            inside, thought = piece == "<think>", ""
        elif inside:
            thought = piece
        else:
            said.append(piece)
    return "".join(said), thought


def find_blocks(text: str, *names: str) -> list[Block]:
    """All blocks with one of these tags, in order; a tag inside a closed block is content."""
    opening = re.compile("<(" + "|".join(map(re.escape, names)) + ")>")
    blocks, position = [], 0
    while found := opening.search(text, position):
        closing = f"</{found[1]}>"
        end = text.find(closing, found.end())
        blocks.append(Block(found[1], text[found.end() : end] if end >= 0 else None))
        position = end + len(closing) if end >= 0 else found.end()
    return blocks
