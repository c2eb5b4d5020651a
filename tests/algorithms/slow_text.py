"""Normalization and matching written down plainly from their description (docs/paper-map.md)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

APOSTROPHES = "'`´‘’‛′ʹʻʼʽʾʿ՚׳ꞌ＇᾽᾿"
SPACELESS_BLOCKS = (  # Thai, Lao, Myanmar, Khmer, kana, Han
    *((0x0E01, 0x0E3A), (0x0E40, 0x0E4E), (0x0E81, 0x0ECD), (0x1000, 0x103F)),
    *((0x1780, 0x17D3), (0x3041, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF)),
)
SEPARATOR, OWNER = "\x1e", "\x01"


def word(char: str) -> bool:
    return char == OWNER or unicodedata.category(char)[0] in "LMN"


def fold(text: str) -> str:
    """NFKC and case folding; what is no word, apostrophe, dot or comma becomes a space."""
    text = text.encode("utf-8", "replace").decode()
    apart = ["'" if c in APOSTROPHES else " " if _spacing_accent(c) else c for c in text]
    folded = unicodedata.normalize("NFKC", "".join(apart)).casefold()
    return "".join(map(_class, unicodedata.normalize("NFKC", folded)))


def _spacing_accent(char: str) -> bool:
    form = unicodedata.normalize("NFKC", char)
    return len(form) > 1 and form[0] == " "


def _class(char: str) -> str:
    if char in APOSTROPHES:
        return "'"
    if re.match("[\u034f\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]", char):
        return ""
    if char in ".," or (char != OWNER and word(char)):
        return char
    return "" if unicodedata.category(char) == "Cf" and char != "\u200b" else " "


def settle(folded: str) -> str:
    """Apostrophes go; dots between single letters and commas between digits go."""
    text = folded.replace("'", "")
    return "".join(_mark(text, place) for place in range(len(text)))


def _mark(text: str, place: int) -> str:
    char = text[place]
    if char not in ".,":
        return char
    before, after = f"  {text}"[place : place + 2], f"{text}  "[place + 1 : place + 3]
    if char == ",":
        return "" if before[1].isdecimal() and after[0].isdecimal() else " "
    letters = all(unicodedata.category(c)[0] == "L" for c in (before[1], after[0]))
    return "" if letters and not word(before[0]) and not word(after[1]) else " "


def normalize(text: str) -> str:
    words = settle(fold(text)).split()
    return " ".join(words[1:] if len(words) > 1 and words[0] in ("the", "a", "an") else words)


def tokens(text: str) -> list[str]:
    """Tokens of one text; a character of a script without spaces is one by itself."""
    folded = _apart(fold(text))
    marked = "".join(_possessive(folded, place) for place in range(len(folded)))
    return settle(marked).split()


def _possessive(text: str, place: int) -> str:
    before, after = f" {text}"[place], f"{text}  "[place + 1 : place + 3]
    owner = text[place] == "'" and word(before) and after[0] == "s" and not word(after[1])
    return OWNER if owner else text[place]


def _apart(text: str) -> str:
    return "".join(f" {c} " if _spaceless(c) else c for c in text)


def _spaceless(char: str) -> bool:
    return any(low <= ord(char) <= high for low, high in SPACELESS_BLOCKS)


def find(text: str, gold: list[list[str]]) -> set[int]:
    """Try every alias at every place; its last word may be an owner without the s."""
    parts = [tokens(part) for part in text.split(SEPARATOR)]
    return {
        entity
        for entity, aliases in enumerate(gold)
        for alias in aliases
        for part in parts
        if _occurs(_apart(normalize(alias)).split(), part)
    }


def _occurs(alias: list[str], text: list[str]) -> bool:
    if not alias:
        return False
    places = range(len(text) - len(alias) + 1)
    return any(_matches(alias, text[i : i + len(alias)]) for i in places)


def _matches(alias: list[str], row: list[str]) -> bool:
    whole = [token.replace(OWNER, "") for token in row]
    return alias[:-1] == whole[:-1] and alias[-1] in _forms(row[-1])


def _forms(token: str) -> Iterator[str]:
    yield token.replace(OWNER, "")
    for place, char in enumerate(token):
        if char == OWNER:
            yield token[:place].replace(OWNER, "")
