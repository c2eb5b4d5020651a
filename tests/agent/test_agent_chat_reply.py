"""What the text of a chat endpoint stands for, whatever the endpoint cut off or took out."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from support.templates import LLAMA_SPECIAL, chat_tokenizer

from spader_slime.agent.chat_reply import Reply, Turn, read_reply, read_turn
from spader_slime.agent.template import ChatBoundary

TOKENIZER = chat_tokenizer("qwen3")  # a tag is a token
BOUNDARY = ChatBoundary(TOKENIZER)
STOPS = ("</search>", "</answer>")
END = TOKENIZER.convert_tokens_to_ids("<|im_end|>")
TAG = TOKENIZER.convert_tokens_to_ids("</tool_call>")


def turn(content: str, finish: str = "stop", opened: bool = False, **choice: Any) -> Turn:
    message = {"content": content, **choice.pop("message", {})}
    body = {"choices": [{"message": message, "finish_reason": finish, **choice}]}
    return read_turn(read_reply(orjson.dumps(body)), BOUNDARY, STOPS, opened)


def whole(found: Turn) -> str:
    return BOUNDARY.decode(found.ids)


SAME = {
    "SGLang, kept": turn("<search>a</search>", matched_stop="</search>"),
    "SGLang, cut": turn("<search>a", matched_stop="</search>"),
    "vLLM, kept": turn("<search>a</search>", stop_reason="</search>"),
    "vLLM, cut": turn("<search>a", stop_reason="</search>"),
    "kept": turn("<search>a</search>"),
    "cut": turn("<search>a"),
}


@pytest.mark.parametrize("name", SAME)
def test_stop_strings_stay(name: str) -> None:
    text = "<search>a</search>"
    assert SAME[name] == Turn(text, BOUNDARY.encode(text), "</search>")


def test_what_an_unnamed_stop_closes() -> None:
    assert turn("<answer>a</answer> <search>b").text.endswith("b")  # there is a stop already
    assert turn("<search>a and <answer>b").text.endswith("b</answer>")
    assert turn("nothing open").ids[-1] == END
    assert turn("<search>a", stop_reason=None).ids[-1] == END  # it would have named the string
    assert turn("<search>a", "length").text == "<search>a"


ENDED = {
    "SGLang": turn("hi", matched_stop=END),
    "SGLang, shown": turn("hi<|im_end|>", matched_stop=END),
    "vLLM": turn("hi", stop_reason=None),
    "vLLM, shown": turn("hi<|im_end|>", stop_reason=None),
    "bare": turn("hi"),
}


@pytest.mark.parametrize("name", ENDED)
def test_end_of_turn_tokens_are_part_of_the_ids_only(name: str) -> None:
    assert ENDED[name] == Turn("hi", [*BOUNDARY.encode("hi"), END], END)


@pytest.mark.parametrize("content", ["<tool_call>[]", "<tool_call>[]</tool_call>"])
def test_a_stop_token_that_is_a_tag_is_part_of_the_text(content: str) -> None:
    found = turn(content, matched_stop=TAG)
    text = "<tool_call>[]</tool_call>"
    assert found == Turn(text, BOUNDARY.encode(text), TAG)


def test_another_end_token_of_the_engine_is_learned() -> None:
    boundary = ChatBoundary(chat_tokenizer("llama31"))
    other = LLAMA_SPECIAL.index("<|eom_id|>")
    reply = Reply("hi", "", "stop", other, True, None)
    assert read_turn(reply, boundary, ()) == Turn("hi", [*boundary.encode("hi"), other], other)
    assert boundary.closes(other)


def test_a_template_without_end_token() -> None:
    tokenizer = chat_tokenizer("chatml")
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    tokenizer.eos_token = None
    boundary = ChatBoundary(tokenizer)
    assert boundary.stop_token_ids == []
    reply = Reply("", "", "stop", None, False, None)
    assert read_turn(reply, boundary, ()) == Turn("", [], None)


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_goes_back_into_the_text(key: str) -> None:
    message = {key: "plan"}
    assert whole(turn("hi", message=message)) == "<think>plan</think>hi<|im_end|>"
    assert whole(turn("hi", message=message, opened=True)) == "plan</think>hi<|im_end|>"
    assert whole(turn("", "length", message=message)) == "<think>plan"
    assert whole(turn("", message=message)) == "<think>plan</think><|im_end|>"


def test_text_keeps_its_spelling() -> None:
    """The next call gets the text as it came, not as the tokenizer would spell it."""
    text = " e\u0301\ud7ff \r\n"
    assert turn(text).text == text
