"""What a single character becomes in normalized text; the tables behind `normalization`.

Folding is NFKC, casefold, NFKC. Of the result, letters, marks and numbers stay, every kind of
apostrophe becomes ``'``, the dot and the comma stay (their neighbours decide), invisible
formatting characters vanish, and all else becomes a space.
"""

from __future__ import annotations

import re
import unicodedata

APOSTROPHES = frozenset("'`´‘’‛′ʹʻʼʽʾʿ՚׳ꞌ＇᾽᾿")
_IGNORED = re.compile("[\u034f\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_ZERO_WIDTH_SPACE = "\u200b"
_HANGUL_TAILS = re.compile("[\u1160-\u11ff\ud7b0-\ud7ff]")  # compose with what precedes them

# Scripts written without spaces: Han, kana, Thai, Lao, Myanmar, Khmer.
SPACELESS = re.compile(
    "([\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u109a-\u109f"
    "\u1780-\u17d3\u17d7\u17dc\u17dd\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035"
    "\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua9e0-\ua9ef\uaa60-\uaa7f\uf900-\ufaff"
    "\U00020000-\U0003ffff])"
)


def fold(text: str) -> str:
    """Fold and classify `text` character by character (see the module's text)."""
    parts = [_stand_in(char) for char in text]
    folded = unicodedata.normalize("NFKC", "".join(parts)).casefold()
    return "".join(map(_classify, unicodedata.normalize("NFKC", folded)))


def is_word(char: str) -> bool:
    """A letter, mark or number."""
    return unicodedata.category(char)[0] in "LMN"


def is_letter(char: str) -> bool:
    return unicodedata.category(char)[0] == "L"


class CharacterTable(dict[str, str]):
    """Character -> its normalized form, filled as characters are met.

    With `spaced`, characters of scripts without spaces get a space on both sides.
    """

    def __init__(self, spaced: bool) -> None:
        super().__init__()
        self.spaced = spaced

    def __missing__(self, char: str) -> str:
        form = fold(char)
        self[char] = form = SPACELESS.sub(r" \1 ", form) if self.spaced else form
        return form


class ContextTable(dict[str, bool]):
    """Character -> its form or that of its neighbours can't be told from it alone.

    So it is with marks and Hangul vowels and tails (they compose), and with numbers other than
    0-9, which the byte patterns of `normalization` would take for letters.
    """

    def __missing__(self, char: str) -> bool:
        self[char] = found = any(map(_needs_context, char + fold(char)))
        return found


def _needs_context(char: str) -> bool:
    if char.isascii():
        return False
    return unicodedata.category(char)[0] in "MN" or bool(_HANGUL_TAILS.match(char))


def _stand_in(char: str) -> str:
    """Spacing accents decompose to a space and a mark: they are symbols, not marks."""
    if char in APOSTROPHES:
        return "'"
    form = unicodedata.normalize("NFKC", char)
    return " " if len(form) > 1 and form[0] == " " else char


def _classify(char: str) -> str:
    if char in APOSTROPHES:
        return "'"
    if char in ".," or is_word(char):
        return "" if _IGNORED.match(char) else char
    hidden = unicodedata.category(char) == "Cf" and char != _ZERO_WIDTH_SPACE
    return "" if hidden else " "
