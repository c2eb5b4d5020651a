"""What a chat must be to be learned from."""

from __future__ import annotations

from typing import Any

import pytest
from support.sft_template import TOOLS, call, said, tau_chat

from spader_slime.data.question import BadRecord, LeftOut
from spader_slime.data.sft_messages import Chat, is_learned, read_chat

USER, ANSWER = said("user", "q"), said("assistant", "a")
CALLS = said("assistant", "", tool_calls=[call("look", {}, "a"), call("pay", {}, "b")])
FIRST, SECOND = said("tool", "A", tool_call_id="a"), said("tool", "B", tool_call_id="b")


def chat(*messages: dict[str, Any], **more: Any) -> Chat:
    return read_chat({"messages": list(messages), **more})


def test_a_dialogue_with_tools_in_one_form() -> None:
    found = read_chat({"messages": tau_chat(), "tools": TOOLS, "metadata": {"source": "tau"}})
    assert found.turns == 3 and found.trimmed == 0 and found.source == "tau"
    calls = found.messages[2]["tool_calls"]
    assert [c["function"]["arguments"] for c in calls] == [{"day": "é"}, {"sum": 2}]
    assert found.messages[2]["content"] == ""
    assert found.messages[2]["reasoning_content"] == "First look."


def test_other_names_for_the_same() -> None:
    told = [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]
    assert read_chat({"conversations": told}).messages == chat(USER, ANSWER).messages
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert chat(USER, {"role": "assistant", "content": parts}).messages[1]["content"] == "ab"


def test_what_comes_after_the_last_turn_is_taken_off() -> None:
    found = chat(USER, ANSWER, said("user", "###STOP###"))
    assert found.trimmed == 1 and len(found.messages) == 2


def test_responses_stand_in_the_order_of_their_calls() -> None:
    found = chat(USER, CALLS, SECOND, FIRST, ANSWER)
    assert [m["content"] for m in found.messages] == ["q", "", "A", "B", "a"]


def test_calls_written_as_text_and_calls_without_ids() -> None:
    assert chat(USER, said("assistant", "<tool_call>[]</tool_call>"), FIRST, ANSWER).turns == 2
    unnamed = said("assistant", "", tool_calls=[{"name": "look", "arguments": None}])
    assert chat(USER, unnamed, said("tool", ""), ANSWER).turns == 2
    assert chat(USER, unnamed).turns == 1  # a last call that nothing answers any more


def test_a_turn_can_be_shown_without_being_learned() -> None:
    found = chat(USER, ANSWER | {"weight": 0}, USER, ANSWER | {"weight": 1})
    assert [is_learned(m) for m in found.messages] == [False, False, False, True]


BROKEN: dict[str, list[Any]] = {
    "no messages": [],
    "unknown role": [said("narrator", "x"), ANSWER],
    "roles out of order: message 1: assistant at the beginning": [ANSWER],
    "roles out of order: message 2: user after user": [USER, USER, ANSWER],
    "roles out of order: message 3: assistant after assistant": [USER, ANSWER, ANSWER],
    "roles out of order: message 2: system after user": [USER, said("system", "s"), ANSWER],
    "roles out of order: message 2: tool after user": [USER, FIRST, ANSWER],
    "call without a response": [USER, CALLS, FIRST, ANSWER],
    "response without a call": [USER, CALLS, FIRST, SECOND, said("tool", "C"), ANSWER],
    "response to an unknown call": [USER, CALLS, said("tool", "C", tool_call_id="c"), ANSWER],
    "message without text": [USER, said("assistant", " ")],
    "content that is no text": [USER, said("assistant", 3)],  # type: ignore[arg-type]
    "weight of a turn other than 0 and 1": [USER, ANSWER | {"weight": 0.5}],
    "tool calls of a wrong shape": [USER, said("assistant", "", tool_calls=[{"id": "a"}])],
    "arguments that are no JSON:": [USER, said("assistant", "", tool_calls=[call("pay", "{")])],
    "arguments that are no JSON object": [USER, said("assistant", tool_calls=[call("pay", "[]")])],
    "call of an unknown tool": [USER, said("assistant", tool_calls=[call("steal", {})])],
}


@pytest.mark.parametrize("reason", BROKEN)
def test_broken_chats(reason: str) -> None:
    with pytest.raises(BadRecord, match=reason) as raised:
        chat(*BROKEN[reason], tools=TOOLS)
    assert not isinstance(raised.value, LeftOut)


@pytest.mark.parametrize("tools", ["{", 3, [{"type": "function"}]])
def test_broken_tools(tools: Any) -> None:
    with pytest.raises(BadRecord, match="tools "):
        chat(USER, ANSWER, tools=tools)


@pytest.mark.parametrize(
    ("reason", "messages"),
    [
        ("no assistant turn", [USER]),
        ("no turn to learn from", [USER, ANSWER | {"weight": 0}]),
        ("parts that are no text", [{"role": "user", "content": [{"type": "image"}]}, ANSWER]),
    ],
)
def test_sound_chats_that_are_left_out(reason: str, messages: list[Any]) -> None:
    with pytest.raises(LeftOut, match=reason):
        chat(*messages)
