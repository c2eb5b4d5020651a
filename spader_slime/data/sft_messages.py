"""Chats with tool turns, checked and brought into one form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spader_slime.data.fields import as_list
from spader_slime.data.question import BadRecord, LeftOut
from spader_slime.data.sft_calls import read_calls, read_tools, tool_names

Message = dict[str, Any]

CHAT_KEYS = ("messages", "conversations")
ROLES = {
    "system": "system", "user": "user", "assistant": "assistant", "tool": "tool",
    "human": "user", "gpt": "assistant", "observation": "tool", "function": "tool",
}  # fmt: skip
FOLLOWS: dict[str, set[str | None]] = {  # role: what it may stand after; None is the beginning
    "system": {None},
    "user": {None, "system", "assistant"},
    "assistant": {"user", "tool"},
    "tool": {"assistant", "tool"},
}


@dataclass(frozen=True)
class Chat:
    """One conversation to learn from.

    Attributes:
        messages: `role`, `content` (text), and where they apply `reasoning_content`, `tool_calls`
            (arguments are mappings), `tool_call_id`, `name`, `step_loss_mask` (0: shown, but not
            learned). The last one is the assistant's.
        tools: JSON schemas of the functions; [] without.
        source: name of the data set; "" where none is given.
        trimmed: messages after the last assistant turn, which were taken off.
    """

    messages: list[Message]
    tools: list[dict[str, Any]]
    source: str
    trimmed: int

    @property
    def turns(self) -> int:
        """Assistant turns."""
        return sum(message["role"] == "assistant" for message in self.messages)


def read_chat(record: dict[str, Any]) -> Chat:
    """Check one record.

    Roles and texts may stand under `role`/`content` or `from`/`value`, the chat under `messages`
    or `conversations`.

    Raises:
        BadRecord: an unknown role, roles out of order, calls or responses that don't fit together,
            a message without text.
        LeftOut: nothing in it to learn from, or parts that are no text.
    """
    given = next((as_list(record[key]) for key in CHAT_KEYS if record.get(key) is not None), None)
    if not given or not all(isinstance(message, dict) for message in given):
        raise BadRecord("no messages", f"expected a list under {' or '.join(CHAT_KEYS)}")
    tools = read_tools(record.get("tools"))
    messages = [_message(message, n, tool_names(tools)) for n, message in enumerate(given, 1)]
    kept = _until_the_last_turn(messages)
    _check_order(kept)
    _sort_responses(kept)
    if not any(is_learned(message) for message in kept):
        raise LeftOut("no turn to learn from")
    return Chat(kept, tools, _source(record), len(messages) - len(kept))


def is_learned(message: Message) -> bool:
    """Whether this is an assistant turn inside the loss."""
    return message["role"] == "assistant" and message.get("step_loss_mask", 1) == 1


def _message(given: dict[str, Any], number: int, known: set[str]) -> Message:
    role = given.get("role", given.get("from"))
    if not isinstance(role, str) or role not in ROLES:
        raise BadRecord("unknown role", f"message {number}: {role!r}")
    message: Message = {"role": ROLES[role], "content": _text(given, number)}
    if message["role"] == "assistant":
        message |= _of_an_assistant(given, number, known)
    if message["role"] == "tool":
        message |= {k: str(given[k]) for k in ("tool_call_id", "name") if given.get(k) is not None}
    elif not message["content"].strip() and "tool_calls" not in message:
        raise BadRecord("message without text", f"message {number}, {message['role']}")
    return message


def _text(given: dict[str, Any], number: int) -> str:
    content = given.get("content", given.get("value"))
    parts = as_list(content)
    if content is not None and parts is not None:
        if not all(isinstance(p, dict) and isinstance(p.get("text"), str) for p in parts):
            raise LeftOut("parts that are no text", f"message {number}")
        return "".join(part["text"] for part in parts)
    if isinstance(content, dict) and given.get("role") == "tool":
        return json.dumps(content, ensure_ascii=False)
    if content is not None and not isinstance(content, str):
        raise BadRecord("content that is no text", f"message {number}: {content!r:.60}")
    return content or ""


def _of_an_assistant(given: dict[str, Any], number: int, known: set[str]) -> Message:
    found: Message = {}
    if given.get("reasoning_content"):
        found["reasoning_content"] = str(given["reasoning_content"])
    calls = read_calls(given.get("tool_calls"), f"message {number}", known)
    if calls:
        found["tool_calls"] = calls
    weight = given.get("step_loss_mask", given.get("weight"))
    if weight is not None and weight not in (0, 1):
        raise BadRecord("weight of a turn other than 0 and 1", f"message {number}: {weight!r:.40}")
    if weight is not None and not weight:
        found["step_loss_mask"] = 0
    return found


def _until_the_last_turn(messages: Sequence[Message]) -> list[Message]:
    turns = [n for n, message in enumerate(messages) if message["role"] == "assistant"]
    if not turns:
        raise LeftOut("no assistant turn")
    return list(messages[: turns[-1] + 1])


def _check_order(messages: Sequence[Message]) -> None:
    before: str | None = None
    waiting: list[str | None] | None = None  # ids of calls to be answered; None: not said
    for number, message in enumerate(messages, 1):
        role = message["role"]
        if before not in FOLLOWS[role]:
            after = f"after {before}" if before else "at the beginning"
            raise BadRecord("roles out of order", f"message {number}: {role} {after}")
        if role == "tool":
            _answer(waiting, message, number)
        elif waiting:
            raise BadRecord("call without a response", f"before message {number}")
        if role == "assistant":
            calls = message.get("tool_calls")
            waiting = [call.get("id") for call in calls] if calls else None
        before = role


def _answer(waiting: list[str | None] | None, message: Message, number: int) -> None:
    """Strike the call that this message answers; calls written as text are not counted."""
    if waiting is None:
        return
    if not waiting:
        raise BadRecord("response without a call", f"message {number}")
    answered = message.get("tool_call_id")
    if answered is None or not any(waiting):
        waiting.pop(0)
    elif answered in waiting:
        waiting.remove(answered)
    else:
        raise BadRecord("response to an unknown call", f"message {number}: {answered!r:.60}")


def _sort_responses(messages: list[Message]) -> None:
    """Responses in the order of their calls: a template shows no ids."""
    for start, message in enumerate(messages):
        ids = [call.get("id") for call in message.get("tool_calls", ())]
        end = start + 1 + len(ids)
        responses = messages[start + 1 : end]
        if None not in ids and all(r.get("tool_call_id") in ids for r in responses):
            messages[start + 1 : end] = sorted(
                responses, key=lambda r: ids.index(r["tool_call_id"])
            )


def _source(record: dict[str, Any]) -> str:
    metadata = record.get("metadata")
    places = (record, metadata if isinstance(metadata, dict) else {})
    found = (place.get(key) for place in places for key in ("source", "source_name"))
    return next((text for text in found if isinstance(text, str) and text), "")
