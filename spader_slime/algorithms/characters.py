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
_LONGEST_KEPT, _MOST_KEPT = 48, 1 << 14  # bytes of a run, and runs, kept in a table
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


class RunTable(dict[bytes, bytes]):
    """A run of characters in UTF-8 -> its folded form, filled as runs are met.

    With `spaced`, characters of scripts without spaces get a space on both sides. Long runs are
    folded and not kept.
    """

    def __init__(self, spaced: bool) -> None:
        super().__init__()
        self._characters = _CharacterTable(spaced)

    def __missing__(self, run: bytes) -> bytes:
        form = self._characters.fold(run.decode()).encode()
        if len(run) <= _LONGEST_KEPT:
            if len(self) >= _MOST_KEPT:
                self.clear()
            self[run] = form
        return form


class _CharacterTable(dict[str, str]):
    """Character -> its form: right where no character depends on its neighbours."""

    def __init__(self, spaced: bool) -> None:
        super().__init__()
        self._spaced = spaced

    def __missing__(self, char: str) -> str:
        self[char] = form = self._apart(fold(char))
        return form

    def fold(self, text: str) -> str:
        if any(map(_DEPENDS.__getitem__, text)):
            return self._apart(fold(text))
        return "".join(map(self.__getitem__, text))

    def _apart(self, folded: str) -> str:
        return SPACELESS.sub(r" \1 ", folded) if self._spaced else folded


class _DependsTable(dict[str, bool]):
    """Character -> it may compose with what precedes it (marks, Hangul vowels and tails)."""

    def __missing__(self, char: str) -> bool:
        self[char] = found = any(map(_composes, char + fold(char)))
        return found


_DEPENDS = _DependsTable()


def _composes(char: str) -> bool:
    return unicodedata.category(char)[0] == "M" or bool(_HANGUL_TAILS.match(char))


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
