"""The messages of a chat request, checked."""

from __future__ import annotations

from typing import Any

from spader_slime.local.engine.params import RequestError

ROLES = ("system", "developer", "user", "assistant", "tool")
_KNOWN = {"role", "content", "name", "tool_call_id"}
_EMPTY: tuple[Any, ...] = (None, "", [], {})


def read_messages(messages: Any) -> list[dict[str, str]]:
    """Messages with text contents.

    Text parts are joined by a space, as SGLang joins them; an assistant's null is "".

    Raises:
        RequestError: no list, an empty one, or a message that can't be read or shown.
    """
    if not isinstance(messages, list) or not messages:
        raise RequestError("'messages' must be a non-empty list")
    return [_message(message, f"messages[{i}]") for i, message in enumerate(messages)]


def _message(message: Any, where: str) -> dict[str, str]:
    if not isinstance(message, dict):
        raise RequestError(f"{where} must be an object")
    if message.get("role") not in ROLES:
        raise RequestError(f"{where}.role must be one of {', '.join(ROLES)}")
    for name, value in message.items():
        if name not in _KNOWN and value not in _EMPTY:
            raise RequestError(f"this engine does not support {where}.{name}")
    given = {name: message[name] for name in ("name", "tool_call_id") if message.get(name)}
    if not all(isinstance(value, str) for value in given.values()):
        raise RequestError(f"{where}: {' and '.join(given)} must be a string")
    return {"role": message["role"], "content": _content(message, where), **given}


def _content(message: dict[str, Any], where: str) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None and message["role"] == "assistant":
        return ""
    if isinstance(content, list) and content and all(map(_is_text, content)):
        return " ".join(part["text"] for part in content)
    raise RequestError(f"{where}.content must be a string or a list of text parts")


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and type(part.get("text")) is str
