"""Gold answers in one form, whatever the data set or file format handed over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from spader_slime.errors import DataError

Gold = list[list[str]]


def as_gold(value: Any) -> Gold:
    """Gold answers as a list of entities, each a list of aliases, in the order given.

    Accepts lists, tuples and numpy arrays (nested or of objects, as parquet readers return
    them). A string in the place of an entity is an entity with that one alias, so a flat list of
    strings is a list of entities. Whole numbers become strings; blank and null aliases drop.

    Raises:
        DataError: a bare string, mapping or other non-list; no entity at all; an entity without
            any alias that is not blank; an alias that is neither string nor whole number.
    """
    if not _is_listing(value):
        raise DataError(f"gold must be a list of alias lists, not {_brief(value)}")
    gold = [_aliases(entity, index) for index, entity in enumerate(value)]
    if not gold:
        raise DataError("gold has no entity")
    return gold


def _aliases(entity: Any, index: int) -> list[str]:
    names = entity if _is_listing(entity) else [entity]
    aliases = [text for text in (_text(name, index) for name in names) if text.strip()]
    if not aliases:
        raise DataError(f"gold entity {index} has no alias that is not blank")
    return aliases


def _text(name: Any, index: int) -> str:
    if name is None:
        return ""
    if isinstance(name, str):
        return str(name)
    if isinstance(name, (int, np.integer)) and not isinstance(name, bool):
        return str(int(name))
    raise DataError(f"gold entity {index}: an alias must be a string, not {_brief(name)}")


def _is_listing(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Iterable) and isinstance(value, (list, tuple))


def _brief(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
