"""Which keys of a corpus record hold title and text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spader_slime.errors import DataError
from spader_slime.retrieval.passages import Passage


@dataclass(frozen=True)
class Fields:
    """Keys of a record; dots lead into nested objects (`meta.title`).

    Attributes:
        title: "" for none. A missing or null title is an empty one.
        text: must be there and be a string.
        prior: optional factor on the score, at least 1; "" for none.
    """

    title: str
    text: str
    prior: str = ""


# Tried in this order. QAMPARI's corpus (the prior is ours), QUEST's, and corpora with title and
# contents; the last is Search-R1's, whose `contents` is `"Title"\ntext`.
KNOWN = (
    Fields("meta.title", "meta.content", "meta.prior"),
    Fields("title", "text", "prior"),
    Fields("title", "contents"),
    Fields("", "contents"),
)


def to_passage(record: object, fields: Fields | None = None) -> Passage:
    """The passage in a record of a corpus.

    Args:
        fields: None finds the first of `KNOWN` whose keys are there.

    Raises:
        DataError: a key is missing or holds something else; says which.
    """
    if not isinstance(record, Mapping):
        raise DataError(f"a corpus record is an object, not {type(record).__name__}")
    chosen = fields or _known(record)
    title, text = _get(record, chosen.title), _get(record, chosen.text)
    if not isinstance(text, str) or not isinstance(title, str | None):
        raise DataError(f"'{chosen.title}' and '{chosen.text}' must be strings")
    if not fields and not chosen.title:
        title, text = _split(text)
    return Passage(title or "", text, _prior(_get(record, chosen.prior), chosen.prior))


def _known(record: Mapping[str, Any]) -> Fields:
    for fields in KNOWN:
        titled = not fields.title or _has(record, fields.title)
        if titled and isinstance(_get(record, fields.text), str):
            return fields
    raise DataError(
        f"no title and text among the keys {', '.join(sorted(map(str, record)))}: "
        "name them with --title and --text"
    )


def _has(record: Mapping[str, Any], path: str) -> bool:
    *above, last = path.split(".")
    holder = _get(record, ".".join(above)) if above else record
    return isinstance(holder, Mapping) and last in holder


def _get(record: Any, path: str) -> Any:
    """What lies at a dotted path; None where it leads nowhere."""
    if not path:
        return None
    for key in path.split("."):
        if not isinstance(record, Mapping):
            return None
        record = record.get(key)
    return record


def _split(contents: str) -> tuple[str, str]:
    """Title and text of Search-R1's `contents`; without a quoted first line all of it is text."""
    first, newline, rest = contents.partition("\n")
    if newline and len(first) >= 2 and first[0] == first[-1] == '"':
        return first[1:-1], rest
    return "", contents


def _prior(value: object, key: str) -> float:
    if value is None:
        return 1.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1.0 <= value < 1e6:
        raise DataError(f"'{key}' is {value!r}: expected a number from 1 to a million")
    return float(value)
