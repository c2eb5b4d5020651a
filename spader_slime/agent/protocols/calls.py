"""Tool calls of the SPADER protocol: a JSON list of queries, or a function-call object."""

from __future__ import annotations

import json
from typing import Any

from spader_slime.agent.protocols.base import MAX_QUERIES
from spader_slime.agent.protocols.tags import find_blocks, outside_think
from spader_slime.algorithms.lists import read_list, strip_fence
from spader_slime.errors import ProtocolError

TAG = "tool_call"
_EXAMPLE = '<tool_call>["first query", "second query"]</tool_call>'
_ARGUMENTS = ("arguments", "parameters")
_QUERIES = ("query_list", "queries", "query")


def parse_tool_call(text: str) -> list[str]:
    """The queries of all tool calls in an assistant's turn, in order.

    Accepted inside `<tool_call>`: a list of queries (nested lists flatten, blanks drop, numbers
    become strings), or an object with `arguments` that hold a `query_list` (an object, or the
    same as a JSON string). Calls inside think blocks do not count.

    Raises:
        ProtocolError: no call, or any call that can't be read; the message is for the model.
    """
    said, _ = outside_think(text)
    blocks = find_blocks(said, TAG)
    if not blocks:
        raise ProtocolError(f"There is no tool call. Write {_EXAMPLE}.")
    return limited([query for block in blocks for query in read_call(block.content)])


def read_call(content: str | None) -> list[str]:
    """The queries of one call.

    Raises:
        ProtocolError: the call was never closed (None), is unreadable, or holds no query.
    """
    if content is None:
        raise ProtocolError(f"The tool call was never closed. Write {_EXAMPLE}.")
    content = strip_fence(content)
    found = _from_object(content) if content.startswith("{") else read_list(content)
    if found is None:
        raise ProtocolError(f"The tool call is not a JSON list of queries. Write {_EXAMPLE}.")
    queries = [clean(query) for query in found if query.strip()]
    if not queries:
        raise ProtocolError(f"The tool call holds no query. Write {_EXAMPLE}.")
    return queries


def limited(queries: list[str]) -> list[str]:
    """`queries`, if one turn may hold so many.

    Raises:
        ProtocolError: more than `MAX_QUERIES`.
    """
    if len(queries) > MAX_QUERIES:
        raise ProtocolError(f"At most {MAX_QUERIES} queries are allowed in one turn.")
    return queries


def clean(text: str) -> str:
    """Half characters (lone surrogates) can't be sent or stored: they become '?'."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _from_object(content: str) -> list[str] | None:
    call = _json(content)
    arguments = _first(call, _ARGUMENTS)
    if isinstance(arguments, str):
        arguments = _json(arguments)
    queries = _first(arguments, _QUERIES)
    if isinstance(queries, str):
        return [queries]
    return read_list(json.dumps(queries)) if isinstance(queries, list) else None


def _first(value: Any, names: tuple[str, ...]) -> Any:
    if not isinstance(value, dict):
        return None
    return next((value[name] for name in names if name in value), None)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
