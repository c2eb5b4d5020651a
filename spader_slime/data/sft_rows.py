"""Rows of fine-tuning files as slime's SFT rollout reads them: `messages`, `tools`, `metadata`.

`tools` is JSON text and always there: slime refuses null. In parquet, arguments of calls are JSON
text, since one schema can't hold the arguments of every tool, and every message has every member,
null where it does not apply; in jsonl, arguments are objects and messages hold only what they need.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spader_slime.data.fields import mapping_of, text_of
from spader_slime.data.question import BadRecord
from spader_slime.data.reading import Record, import_parquet
from spader_slime.data.sft_messages import Chat, Message, is_learned, read_chat

TEXTS = ("role", "content", "reasoning_content", "tool_call_id", "name")


def sft_row(chat: Chat, out: Path, observation_tag: str) -> dict[str, Any]:
    """One row for the file `out`, whose suffix decides its form."""
    tagged = any(f"<{observation_tag}>" in m["content"] for m in _assistants(chat.messages))
    metadata = {
        "source_name": chat.source,
        "observation_tag": observation_tag if observation_tag and tagged else "",
    }
    parquet = out.suffix == ".parquet"
    return {
        "messages": [_flat(message) for message in chat.messages] if parquet else chat.messages,
        "tools": json.dumps(chat.tools, ensure_ascii=False),
        "metadata": metadata,
    }


def sft_schema() -> Any:
    """Arrow schema of the rows."""
    import_parquet()
    import pyarrow as arrow

    text = arrow.string()
    function = arrow.struct([("name", text), ("arguments", text)])
    call = arrow.struct([("id", text), ("type", text), ("function", function)])
    message = arrow.struct(
        [
            *((name, text) for name in TEXTS),
            ("tool_calls", arrow.list_(call)),
            ("step_loss_mask", arrow.int8()),
        ]
    )
    metadata = arrow.struct([("source_name", text), ("observation_tag", text)])
    columns = [("messages", arrow.list_(message)), ("tools", text), ("metadata", metadata)]
    return arrow.schema(columns)


@dataclass(frozen=True)
class SftRow:
    """A written row in the form in which slime has it: nulls of parquet stay.

    Attributes:
        observation_tag: as `ChatRenderer.render` takes it.
    """

    messages: list[Message]
    tools: list[Any]
    observation_tag: str
    source: str


def read_row(record: Record) -> SftRow:
    """Check a written row.

    Raises:
        BadRecord: a row that `read_chat` refuses, with tools that slime refuses, or that goes on
            after the last assistant turn.
    """
    if record.value is None:
        raise BadRecord("unreadable", record.fault)
    chat = read_chat(record.value)
    messages = record.value.get("messages") or []
    if not messages or not all(map(_is_plain, messages)):
        raise BadRecord("not as `data sft` writes it", "messages with role and text")
    if chat.trimmed:
        raise BadRecord("messages after the last assistant turn")
    if not any(map(is_learned, messages)):
        raise BadRecord("no turn to learn from", "slime takes a null step_loss_mask for 0")
    if not isinstance(record.value.get("tools", ""), str | list):
        raise BadRecord("tools that are null", "slime wants a list, or JSON text of one")
    tag = text_of(mapping_of(record.value, "metadata"), "observation_tag")
    return SftRow(messages, chat.tools, tag, chat.source)


def _is_plain(message: Message) -> bool:
    return "role" in message and isinstance(message.get("content"), str | None)


def _assistants(messages: list[Message]) -> list[Message]:
    return [message for message in messages if message["role"] == "assistant"]


def _flat(message: Message) -> Message:
    calls = [_flat_call(call) for call in message.get("tool_calls", [])]
    # slime takes a null here for 0
    return {**message, "tool_calls": calls or None} | {
        "step_loss_mask": message.get("step_loss_mask", 1)
    }


def _flat_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = json.dumps(function["arguments"], ensure_ascii=False)
    return {**call, "function": {"name": function["name"], "arguments": arguments}}
