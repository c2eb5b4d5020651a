"""Chat requests that are refused, and how other templates render what is asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.engines import Client
from support.templates import chat_tokenizer

from spader_slime.agent.template import ChatBoundary
from spader_slime.errors import EngineError
from spader_slime.local.engine.chat import Chat
from spader_slime.local.engine.info import Served
from spader_slime.local.engine.prompts import Limits

PATH = "/v1/chat/completions"
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Oslo?"}]
CONTEXT = 256  # of the engine in conftest.py

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "streaming": ({"stream": True}, "streaming"),
    "stream type": ({"stream": "no"}, "'stream' must be true or false"),
    "no messages": ({"messages": None}, "'messages' must be a non-empty list"),
    "empty messages": ({"messages": []}, "'messages'"),
    "message type": ({"messages": ["hello"]}, r"messages\[0\] must be an object"),
    "role": ({"messages": [{"role": "robot", "content": "a"}]}, r"messages\[0\]\.role"),
    "role type": ({"messages": [{"role": [], "content": "a"}]}, r"messages\[0\]\.role"),
    "null": ({"messages": [{"role": "user", "content": None}]}, r"\.content must be a string"),
    "content type": ({"messages": [{"role": "user", "content": 5}]}, "content must be a string"),
    "image": (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
        "text parts",
    ),
    "tool calls": (
        {"messages": [{"role": "assistant", "content": "a", "tool_calls": [{}]}]},
        r"messages\[0\]\.tool_calls",
    ),
    "name type": ({"messages": [{"role": "user", "content": "a", "name": 5}]}, "name"),
    "nothing to go on with": ({"continue_final_message": True}, "needs an assistant message"),
    "no generation prompt": ({"add_generation_prompt": False}, "add_generation_prompt"),
    "model type": ({"model": 5}, "'model' must be a string"),
    "several": ({"n": 2}, "'n'"),
    "tokens type": ({"max_tokens": "9"}, "max_new_tokens"),
    "tokens": ({"max_completion_tokens": -1}, "max_new_tokens"),
    "temperature": ({"temperature": True}, "temperature"),
    "seed": ({"seed": "x"}, "seed"),
    "stop": ({"stop": [1]}, "'stop'"),
    "penalty": ({"presence_penalty": 1}, "presence_penalty"),
    "unknown": ({"tempersture": 1}, "'tempersture'"),
    "tools": ({"tools": [{"type": "function"}]}, "'tools'"),
    "format": ({"response_format": {"type": "json_object"}}, "response_format"),
    "log-probs type": ({"logprobs": 5}, "'logprobs' must be true or false"),
    "top": ({"logprobs": True, "top_logprobs": 21}, "'top_logprobs'"),
    "top alone": ({"top_logprobs": 2}, "'logprobs': true"),
    "template": ({"chat_template_kwargs": {"chat_template": "x"}}, "may not set 'chat_template'"),
    "template type": ({"chat_template_kwargs": [1]}, "must be an object"),
    "rid": ({"rid": 5}, "'rid'"),
    "too long": ({"max_tokens": CONTEXT}, "context length"),
    "long input": ({"messages": [{"role": "user", "content": "a" * CONTEXT}]}, "context length"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(client: Client, name: str) -> None:
    fields, message = REFUSED[name]
    status, reply = client.call(PATH, {"messages": ASKED, **fields})
    assert status == 400
    assert re.search(message, reply["error"]["message"])


@pytest.mark.parametrize("body", [b"{nope", b"[1]", b"\xff"], ids=["cut", "list", "bytes"])
def test_bodies_that_are_no_object(client: Client, body: bytes) -> None:
    status, reply = client.call(PATH, body)
    assert status == 400 and "body" in reply["error"]["message"]


def test_a_huge_body_is_refused_without_harm(client: Client) -> None:
    assert client.call(PATH, b" " * (65 * 2**20))[0] == 413
    assert client.ok(PATH, {"messages": ASKED, "max_tokens": 1})["choices"]


def rendered(tokenizer: Any, messages: Any = ASKED, **fields: Any) -> list[int]:
    """The prompt of a request, as ids; no engine is needed for it."""
    chat = Chat(Served(Path("m"), Limits(9999, 999, tokenizer), 1, None))
    ids: list[int] = chat.parse({"messages": messages, **fields}).sampled.input_ids.tolist()
    return ids


def test_the_template_has_variables() -> None:
    tokenizer, off = chat_tokenizer("qwen3"), {"enable_thinking": False}
    ids = rendered(tokenizer, chat_template_kwargs=off)
    assert ids == ChatBoundary(tokenizer, off).prompt_ids(ASKED) != rendered(tokenizer)


def test_thinking_is_opened_once() -> None:
    tokenizer = chat_tokenizer("thinking")
    begun = [*ASKED, {"role": "assistant", "content": "<think>\nplan"}]
    text = tokenizer.decode(rendered(tokenizer, begun, continue_final_message=True))
    assert text.endswith("assistant\n<think>\nplan") and text.count("<think>") == 1


def test_messages_that_the_template_refuses() -> None:
    with pytest.raises(EngineError, match="unknown role"):
        rendered(chat_tokenizer("plain"), [{"role": "system", "content": "a"}])


def test_models_that_do_not_chat() -> None:
    tokenizer = chat_tokenizer("chatml")
    tokenizer.chat_template = None
    with pytest.raises(EngineError, match="chat template"):
        rendered(tokenizer)
    with pytest.raises(EngineError, match="no tokenizer"):
        rendered(None)
