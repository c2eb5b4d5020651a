"""Tools and tool calls of a chat: JSON schemas, and calls whose arguments are mappings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from spader_slime.data.fields import as_list
from spader_slime.data.question import BadRecord


def read_tools(given: Any) -> list[dict[str, Any]]:
    """The functions that a chat may call; a list, or JSON text of one; null is none.

    Raises:
        BadRecord: something else, or a function without a name.
    """
    found = as_list(_unpacked(given, "tools"))
    if found is None or not all(isinstance(tool, dict) and _name(tool) for tool in found):
        raise BadRecord("tools of a wrong shape", f"{given!r:.60}")
    return found


def tool_names(tools: Sequence[dict[str, Any]]) -> set[str]:
    """Names of these functions."""
    return {_name(tool) for tool in tools}


def read_calls(given: Any, place: str, known: set[str]) -> list[dict[str, Any]]:
    """Calls as `{"id"?, "type": "function", "function": {"name", "arguments"}}`.

    Args:
        given: a list of such, or of plain `{"name", "arguments"}`; arguments may be JSON text.
        place: the message in words, for errors.
        known: names that may be called; empty: any.

    Raises:
        BadRecord: no list, no name, an unknown name, arguments that are no JSON object.
    """
    calls = as_list(given)
    if calls is None:
        raise BadRecord("tool calls of a wrong shape", f"{place}: {given!r:.60}")
    return [_call(call, place, known) for call in calls]


def _call(call: Any, place: str, known: set[str]) -> dict[str, Any]:
    name = _name(call) if isinstance(call, dict) else ""
    if not name:
        raise BadRecord("tool calls of a wrong shape", f"{place}: {call!r:.60}")
    if known and name not in known:
        raise BadRecord("call of an unknown tool", f"{place}: {name}")
    given = (call.get("function") or call).get("arguments")
    arguments = _unpacked({} if given in (None, "") else given, "arguments")
    if not isinstance(arguments, dict):
        raise BadRecord("arguments that are no JSON object", f"{place}: {given!r:.60}")
    identity = {"id": str(call["id"])} if call.get("id") is not None else {}
    return {**identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def _name(entry: dict[str, Any]) -> str:
    inner = entry.get("function") or entry
    name = inner.get("name") if isinstance(inner, dict) else None
    return name if isinstance(name, str) else ""


def _unpacked(value: Any, what: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise BadRecord(f"{what} that are no JSON", f"{value!r:.60}") from error
