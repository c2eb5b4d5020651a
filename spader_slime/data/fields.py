"""Fields of a record as they come in public files: missing, null, or as numpy arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spader_slime.data.question import BadRecord, Messages, as_text, whole


def text_of(record: Mapping[str, Any], *names: str) -> str:
    """The first of these fields that holds text; "" when none does."""
    return next((found for name in names if (found := as_text(record.get(name)))), "")


def question_of(record: Mapping[str, Any], *names: str) -> str:
    """The question's text.

    Raises:
        BadRecord: none of these fields holds text.
    """
    found = text_of(record, *names)
    if not found:
        raise BadRecord("no question", f"expected text under {' or '.join(names)}")
    return found


def list_of(record: Mapping[str, Any], *names: str) -> list[Any]:
    """The first of these fields that is there, as a list; [] where all are null or missing.

    Raises:
        BadRecord: it is neither null nor a list.
    """
    name = next((name for name in names if record.get(name) is not None), names[0])
    found = as_list(record.get(name))
    if found is None:
        raise BadRecord("answers of a wrong shape", f"{name} is {record[name]!r:.60}")
    return found


def as_list(value: Any) -> list[Any] | None:
    """Lists, tuples, numpy arrays and null as a list; None for anything else."""
    if value is None:
        return []
    if hasattr(value, "tolist"):
        value = value.tolist()
    return list(value) if isinstance(value, list | tuple) else None


def names_of(value: Any) -> list[Any]:
    """Names of one answer: a list as it is, anything else but null as the only name."""
    found = as_list(value)
    return [value] if found is None else found


def mapping_of(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A field that is a mapping; {} for anything else."""
    found = record.get(name)
    return found if isinstance(found, dict) else {}


def messages_of(record: Mapping[str, Any], name: str = "prompt") -> Messages | None:
    """Chat messages with text in them; None where the field holds anything else."""
    found = as_list(record.get(name))
    if not found or not all(is_message(message) for message in found):
        return None
    return [{key: whole(message[key]) for key in ("role", "content")} for message in found]


def is_message(value: Any) -> bool:
    """Whether `value` is a mapping with role and content, both text."""
    return isinstance(value, dict) and all(
        isinstance(value.get(key), str) for key in ("role", "content")
    )


def question_in(messages: Messages | None) -> str:
    """The question in a prompt: the last user message from its last "Question:" on, if any."""
    users = [m["content"] for m in messages or () if m["role"] == "user"]
    return " ".join(users[-1].split("Question:")[-1].split()) if users else ""


def unquoted(value: Any) -> Any:
    """A JSON list that was stored as a string, read; anything else as it is."""
    if isinstance(value, str) and value.strip().startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
