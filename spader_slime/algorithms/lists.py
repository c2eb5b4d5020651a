"""Lists of strings as models write them: JSON, Python quotes, trailing commas, code fences."""

from __future__ import annotations

import re

_FENCE = re.compile(r"```(?:[ \t]*[A-Za-z0-9_+-]*[ \t]*\r?\n)?(.*?)```", re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<mark>[\[\],])
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.])
    | (?P<word>true|false|null|True|False|None)\b
    )""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\n|.)", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}


def strip_fence(text: str) -> str:
    """`text` without blanks at its ends and without a Markdown code fence around the whole."""
    stripped = text.strip()
    fenced = _FENCE.fullmatch(stripped)
    return fenced.group(1).strip() if fenced else stripped


def read_list(text: str) -> list[str] | None:
    """Read one list of strings, strictly in its grammar and tolerantly in its spelling.

    Nested lists flatten, numbers become strings as written, null and booleans drop, blank
    strings drop; repeats and blanks inside a string stay. Linear in time, never evaluates.

    Returns:
        The strings, or None where `text` is not exactly one such list (objects included).
    """
    items: list[str] = []
    depth, position, after_value, end = 0, 0, False, len(text.rstrip())
    while position < end:
        token = _TOKEN.match(text, position)
        if token is None or (depth == 0 and position > 0):
            return None
        position, mark = token.end(), token["mark"]
        if mark == "[" or mark is None:
            if after_value or (mark is None and depth == 0):
                return None
            depth += mark == "["
            after_value = mark is None
            _collect(items, token)
        elif depth == 0 or (mark == "," and not after_value):
            return None
        else:
            depth -= mark == "]"
            after_value = mark == "]"
    return items if after_value and depth == 0 else None


def _collect(items: list[str], token: re.Match[str]) -> None:
    value = token["number"] or (_unquote(token["text"]) if token["text"] else "")
    if value.strip():
        items.append(value)


def _unquote(quoted: str) -> str:
    inner = quoted[1:-1]
    if "\\" not in inner:
        return inner
    plain = _ESCAPE.sub(_unescape, inner)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape(match: re.Match[str]) -> str:
    code = match.group(1)
    return chr(int(code[1:], 16)) if len(code) > 1 else _PLAIN.get(code, code)
