"""Normal form of names and texts (method: "Normalization"), fast enough for every observation.

Work is done on UTF-8 bytes: one table look-up for ASCII, one cached look-up per run of non-ASCII
characters, patterns that start with a literal, numpy to find runs and to collapse spaces.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from spader_slime.algorithms.characters import (
    SPACELESS,
    RunTable,
    fold,
    is_letter,
    is_word,
)

SEPARATOR = "\x1e"  # put between texts that must not match across their border
POSSESSIVE = b"\x01"  # where the apostrophe of a possessive 's stood

_ARTICLES = ("the", "a", "an")
_LONG = 400  # bytes from which numpy collapses spaces faster than split and join

_FOLD = bytes(ord(fold(chr(b))) if b < 128 else b for b in range(256))
_FOLD_KEEPING_SEPARATOR = _FOLD[:0x1E] + SEPARATOR.encode() + _FOLD[0x1F:]
_TO_SPACE = bytes.maketrans(b".,", b"  ")
_PLAIN, _SPACED = RunTable(spaced=False), RunTable(spaced=True)

# After folding, every byte above 127 belongs to a letter, mark or number.
_POSSESSIVE = re.compile(rb"'(?<=%(w)s')s(?!%(w)s)" % {b"w": rb"[a-z0-9\x01\x80-\xff]"})
_OTHER, _DIGIT, _LETTER, _POSSESSED, _WIDE = range(5)
_KINDS = np.array([_OTHER] * 128 + [_WIDE] * 128, dtype=np.uint8)
_KINDS[list(b"0123456789")] = _DIGIT
_KINDS[list(b"abcdefghijklmnopqrstuvwxyz")] = _LETTER
_KINDS[POSSESSIVE[0]] = _POSSESSED


def normalize(text: str) -> str:
    """The form in which names are compared.

    NFKC and casefold; apostrophes deleted; a dot between single letters and a comma between
    digits deleted; every other punctuation or symbol a space; spaces collapsed; one leading
    article removed if something remains. Accents stay; invisible characters go.
    """
    words = _settle(_fold(text, spaced=False)).decode().split()
    return " ".join(words[1:] if len(words) > 1 and words[0] in _ARTICLES else words)


def matchable(text: str) -> bytes:
    """`text` as tokens between single spaces, for whole-token search of `pattern` forms.

    As `normalize`, but with articles kept, characters of scripts without spaces as tokens of
    their own, `POSSESSIVE` in the place of the apostrophe of a possessive 's, and each
    `SEPARATOR` kept as a token.
    """
    folded = _fold(text.replace(SEPARATOR, f" {SEPARATOR} "), spaced=True)
    marked = _POSSESSIVE.sub(POSSESSIVE + b"s", folded)
    return b" " + _collapse(_settle(marked)) + b" "


def pattern(alias: str) -> bytes:
    """What to look for in `matchable` text: b"" for an alias that normalizes to nothing."""
    name = normalize(alias)
    if not name.isascii():
        name = " ".join(SPACELESS.sub(r" \1 ", name).split())
    return f" {name} ".encode() if name else b""


def _fold(text: str, spaced: bool) -> bytes:
    """Words, spaces, apostrophes, dots and commas; whole text, in UTF-8."""
    raw = text.encode("utf-8", "replace")
    if not text.isascii():
        raw = _fold_runs(raw, _SPACED if spaced else _PLAIN)
    return raw.translate(_FOLD_KEEPING_SEPARATOR if spaced else _FOLD)


def _fold_runs(raw: bytes, table: RunTable) -> bytes:
    """Fold each run of non-ASCII characters, with the character before it: they may compose.

    A space is added at both ends.
    """
    raw = b" " + raw + b" "
    high = np.frombuffer(raw, dtype=np.uint8) > 127
    edges = np.flatnonzero(high[1:] != high[:-1])
    edges[1::2] += 1
    cuts = [0, *edges.tolist(), len(raw)]
    parts = [raw[start:end] for start, end in pairwise(cuts)]
    parts[1::2] = [table[run] for run in parts[1::2]]
    return b"".join(parts)


def _settle(folded: bytes) -> bytes:
    """Delete apostrophes and inner dots and commas; the other dots and commas become spaces."""
    joined = folded.translate(None, b"'")
    if b"." in joined or b"," in joined:
        joined = _without_inner(joined).translate(_TO_SPACE)
    return joined


def _without_inner(text: bytes) -> bytes:
    """Delete dots between single letters and commas between digits."""
    codes = np.frombuffer(b"  " + text + b"  ", dtype=np.uint8)
    marks = np.flatnonzero((codes & 0xFD) == ord(","))  # "," or "."
    marks = marks[(codes[marks - 1] != ord(" ")) & (codes[marks + 1] != ord(" "))]
    before, after = _KINDS[codes[marks - 1]], _KINDS[codes[marks + 1]]
    grouped = (codes[marks] == ord(",")) & (before == _DIGIT) & (after == _DIGIT)
    initial = (codes[marks] == ord(".")) & (before == _LETTER) & (after == _LETTER)
    initial &= (_KINDS[codes[marks - 2]] == _OTHER) & (_KINDS[codes[marks + 2]] == _OTHER)
    inner = marks[grouped | initial].tolist()
    unsure = marks[(before == _WIDE) | (after == _WIDE)].tolist()
    inner += [place for place in unsure if _is_inner(text, place - 2)]
    kept = np.ones(len(codes), dtype=np.bool_)
    kept[inner] = False
    return codes[kept].tobytes() if inner else text


def _is_inner(text: bytes, place: int) -> bool:
    """Two characters on each side decide, of at most four bytes each."""
    before = text[max(0, place - 8) : place].decode("utf-8", "ignore")[-2:]
    after = text[place + 1 : place + 9].decode("utf-8", "ignore")[:2]
    if text[place] == ord(","):
        return before[-1].isdecimal() and after[0].isdecimal()
    alone = not any(char == "\x01" or is_word(char) for char in before[:-1] + after[1:])
    return alone and is_letter(before[-1]) and is_letter(after[0])


def _collapse(spaced: bytes) -> bytes:
    if len(spaced) < _LONG:
        return b" ".join(spaced.split())
    codes = np.frombuffer(b" " + spaced, dtype=np.uint8)
    blank = codes == 0x20
    kept = codes[1:][~(blank[1:] & blank[:-1])].tobytes()
    return kept[:-1] if kept.endswith(b" ") else kept
