"""Normal form of names and texts (method: "Normalization"), fast enough for every observation.

Work is done on UTF-8 bytes: one table look-up for ASCII, one replacement per *distinct* non-ASCII
character, patterns that start with a literal, numpy to collapse spaces. Characters whose form
depends on their neighbours take a slower way, and only around themselves.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from spader_slime.algorithms.characters import (
    SPACELESS,
    CharacterTable,
    ContextTable,
    fold,
    is_letter,
    is_word,
)

SEPARATOR = "\x1e"  # put between texts that must not match across their border
POSSESSIVE = b"\x01"  # where the apostrophe of a possessive 's stood

_ARTICLES = ("the", "a", "an")
_MOST_REPLACEMENTS = 24  # distinct characters beyond which one pass over all is cheaper
_LONG = 400  # bytes from which numpy collapses spaces faster than split and join

_ASCII = bytes(range(128))
_FOLD = bytes(ord(fold(chr(b))) if b < 128 else b for b in range(256))
_FOLD_KEEPING_SEPARATOR = _FOLD[:0x1E] + SEPARATOR.encode() + _FOLD[0x1F:]
_TO_SPACE = bytes.maketrans(b".,", b"  ")
_PLAIN, _SPACED, _CONTEXT = CharacterTable(False), CharacterTable(True), ContextTable()
_PIECE = re.compile(r"[\x00-\x1d\x1f-\x7f]?[^\x00-\x7f]+")  # what may compose, as one

# After folding, a byte above 127 belongs to a letter (or `_CONTEXT` has sent us the slow way).
_WORD = rb"[a-z0-9\x01\x80-\xff]"
_INNER_COMMA = re.compile(rb",(?<=[0-9],)(?=[0-9])")
_INNER_DOT = re.compile(
    rb"\.(?=(?:[a-z]|[\xc2-\xdf].|[\xe0-\xef]..|[\xf0-\xf4]...)(?!%(w)s))"
    rb"(?:(?<=(?<!%(w)s)[a-z]\.)|(?<=(?<!%(w)s)[\xc2-\xdf].\.)"
    rb"|(?<=(?<!%(w)s)[\xe0-\xef]..\.)|(?<=(?<!%(w)s)[\xf0-\xf4]...\.))" % {b"w": _WORD},
    re.DOTALL,
)
_POSSESSIVE = re.compile(rb"'(?<=%(w)s')s(?!%(w)s)" % {b"w": _WORD})


def normalize(text: str) -> str:
    """The form in which names are compared.

    NFKC and casefold; apostrophes deleted; a dot between single letters and a comma between
    digits deleted; every other punctuation or symbol a space; spaces collapsed; one leading
    article removed if something remains. Accents stay; invisible characters go.
    """
    folded, context = _fold(text, spaced=False)
    words = _settle(folded, context).decode().split()
    return " ".join(words[1:] if len(words) > 1 and words[0] in _ARTICLES else words)


def matchable(text: str) -> bytes:
    """`text` as tokens between single spaces, for whole-token search of `pattern` forms.

    As `normalize`, but with articles kept, characters of scripts without spaces as tokens of
    their own, `POSSESSIVE` in the place of the apostrophe of a possessive 's, and each
    `SEPARATOR` kept as a token.
    """
    folded, context = _fold(text.replace(SEPARATOR, f" {SEPARATOR} "), spaced=True)
    marked = _POSSESSIVE.sub(POSSESSIVE + b"s", folded)
    return b" " + _collapse(_settle(marked, context)) + b" "


def pattern(alias: str) -> bytes:
    """What to look for in `matchable` text: b"" for an alias that normalizes to nothing."""
    tokens = SPACELESS.sub(r" \1 ", normalize(alias)).split()
    return b" " + " ".join(tokens).encode() + b" " if tokens else b""


def _fold(text: str, spaced: bool) -> tuple[bytes, bool]:
    """Words, spaces, apostrophes, dots and commas; whether context matters in what follows."""
    raw, context = text.encode("utf-8", "replace"), False
    if not text.isascii():
        table = _SPACED if spaced else _PLAIN
        distinct = set(raw.translate(None, _ASCII).decode())
        context = any(_CONTEXT[char] for char in distinct)
        changed = [char for char in distinct if table[char] != char]
        if context or len(changed) > _MOST_REPLACEMENTS:
            changed, raw = [], _fold_pieces(raw.decode(), spaced)
        for char in changed:
            raw = raw.replace(char.encode(), table[char].encode())
    return raw.translate(_FOLD_KEEPING_SEPARATOR if spaced else _FOLD), context


def _fold_pieces(text: str, spaced: bool) -> bytes:
    folded = _PIECE.sub(lambda match: _fold_piece(match.group(), spaced), text)
    return folded.encode()


@lru_cache(maxsize=1 << 14)
def _fold_piece(piece: str, spaced: bool) -> str:
    folded = fold(piece)
    return SPACELESS.sub(r" \1 ", folded) if spaced else folded


def _settle(folded: bytes, context: bool) -> bytes:
    """Delete apostrophes and inner dots and commas; the other dots and commas become spaces."""
    joined = folded.translate(None, b"'")
    if context:
        joined = _drop_inner(joined.decode()).encode()
    else:
        joined = _INNER_DOT.sub(b"", _INNER_COMMA.sub(b"", joined))
    return joined.translate(_TO_SPACE)


def _drop_inner(text: str) -> str:
    marks = re.finditer(r"[.,]", text)
    inner = {mark.start() for mark in marks if _is_inner(text, mark.start())}
    return "".join(char for place, char in enumerate(text) if place not in inner)


def _is_inner(text: str, place: int) -> bool:
    before, after = text[max(0, place - 2) : place], text[place + 1 : place + 3]
    if not before or not after:
        return False
    if text[place] == ",":
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
