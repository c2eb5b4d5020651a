"""The chat route: the same text and output as natively, in OpenAI's words."""

from __future__ import annotations

import math
from typing import Any

import pytest
from support.engines import Client

from spader_slime.agent.template import ChatBoundary

PATH = "/v1/chat/completions"
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Oslo?"}]
TALK = [
    *ASKED,
    {"role": "assistant", "content": "<search> x"},
    {"role": "tool", "content": "Found: →"},
]
GREEDY = {"temperature": 0, "max_tokens": 12}
NATIVE = {"temperature": 0, "max_new_tokens": 12}
CONTEXT = 256  # of the engine in conftest.py


def chat(client: Client, messages: Any = ASKED, **fields: Any) -> Any:
    return client.ok(PATH, {"model": "m", "messages": messages, **GREEDY, **fields})


def choice(reply: Any) -> Any:
    (only,) = reply["choices"]
    return only


def text_of(reply: Any) -> str:
    text: str = choice(reply)["message"]["content"]
    return text


@pytest.mark.parametrize("messages", [ASKED, TALK], ids=["prompt", "talk"])
def test_the_same_as_natively(client: Client, tokenizer: Any, messages: Any) -> None:
    ids = ChatBoundary(tokenizer).prompt_ids(messages)
    native = client.generate(ids, **NATIVE)
    reply = chat(client, messages)
    assert text_of(reply) == native["text"] != ""
    assert reply["usage"]["prompt_tokens"] == len(ids)
    assert reply["usage"]["completion_tokens"] == native["meta_info"]["completion_tokens"]
    assert reply["usage"]["total_tokens"] == len(ids) + 12
    assert (reply["object"], reply["model"]) == ("chat.completion", "m")
    assert choice(reply)["finish_reason"] == "length" and choice(reply)["matched_stop"] is None
    assert reply["metadata"]["weight_version"] == native["meta_info"]["weight_version"]


def test_the_last_message_may_be_gone_on_with(client: Client, tokenizer: Any) -> None:
    begun = [*ASKED, {"role": "assistant", "content": "I think \n\n"}]
    boundary = ChatBoundary(tokenizer)
    ids = boundary.prompt_ids(ASKED) + boundary.encode("I think \n\n")
    reply = chat(client, begun, continue_final_message=True, add_generation_prompt=False)
    assert text_of(reply) == client.generate(ids, **NATIVE)["text"]
    assert reply["usage"]["prompt_tokens"] == len(ids)
    assert chat(client, begun)["usage"]["prompt_tokens"] > len(ids)  # closed, and a new turn


def test_stop_strings_are_cut_off_or_kept(client: Client) -> None:
    whole = text_of(chat(client))
    stop = next(whole[i : i + 2] for i in range(2, 10) if whole[i : i + 2].isascii())
    cut, kept = chat(client, stop=[stop, "@@"]), chat(client, stop=stop, no_stop_trim=True)
    assert text_of(cut) == whole.partition(stop)[0]
    assert text_of(kept) == text_of(cut) + stop
    assert choice(cut)["finish_reason"] == choice(kept)["finish_reason"] == "stop"
    assert choice(cut)["matched_stop"] == choice(cut)["stop_reason"] == stop
    assert text_of(chat(client, stop=stop, include_stop_str_in_output=True)) == text_of(kept)


def test_stop_tokens(client: Client, tokenizer: Any) -> None:
    ids = client.generate(ChatBoundary(tokenizer).prompt_ids(ASKED), **NATIVE)["output_ids"]
    reply = chat(client, stop_token_ids=[ids[5]])
    assert choice(reply)["finish_reason"] == "stop" and choice(reply)["matched_stop"] == ids[5]
    assert text_of(reply) == tokenizer.decode(ids[: ids.index(ids[5])])


def test_seeds_and_shapes_of_sampling(client: Client, tokenizer: Any) -> None:
    ids = ChatBoundary(tokenizer).prompt_ids(ASKED)
    native = {"temperature": 0.8, "top_p": 0.9, "top_k": 40, "sampling_seed": 5}
    fields = {"temperature": 0.8, "top_p": 0.9, "top_k": 40, "seed": 5}
    expected = client.generate(ids, max_new_tokens=12, ignore_eos=True, **native)["text"]
    assert text_of(chat(client, ignore_eos=True, n=1, **fields)) == expected
    assert text_of(chat(client, ignore_eos=True, **fields | {"seed": 6})) != expected


def test_limits(client: Client) -> None:
    both = chat(client, max_tokens=9, max_completion_tokens=3, ignore_eos=True)
    assert both["usage"]["completion_tokens"] == 3
    fields = {"messages": ASKED, "temperature": 0, "ignore_eos": True}
    usage = client.ok(PATH, fields)["usage"]
    assert usage["total_tokens"] == CONTEXT - 1  # all that there is room for
    assert (
        client.ok(PATH, fields | {"max_tokens": 2})["model"]
        == client.ok("/model_info")["model_path"]
    )


def test_log_probs(client: Client, tokenizer: Any) -> None:
    ids = ChatBoundary(tokenizer).prompt_ids(ASKED)
    native = client.generate(ids, **NATIVE)["meta_info"]["output_token_logprobs"]
    listed = choice(chat(client, logprobs=True, top_logprobs=2))["logprobs"]["content"]
    assert [entry["logprob"] for entry in listed] == [triple[0] for triple in native]
    assert (
        bytes(listed[0]["bytes"]).decode() == listed[0]["token"] == tokenizer.decode(native[0][1])
    )
    for entry in listed:
        assert len(entry["top_logprobs"]) == 2
        assert math.isclose(entry["top_logprobs"][0]["logprob"], entry["logprob"], rel_tol=1e-5)
    plain = choice(chat(client, logprobs=True))["logprobs"]["content"]
    assert [entry["top_logprobs"] for entry in plain] == [[]] * 12
    assert choice(chat(client))["logprobs"] is None


def test_contents_in_parts_and_null(client: Client) -> None:
    parts = [{"type": "text", "text": "Os"}, {"type": "text", "text": "lo?"}]
    whole = [{"role": "user", "content": "Os lo?"}, {"role": "assistant", "content": ""}]
    pieces = [{"role": "user", "content": parts}, {"role": "assistant", "content": None}]
    assert text_of(chat(client, pieces)) == text_of(chat(client, whole))


def test_fields_that_change_nothing(client: Client) -> None:
    harmless = {"user": "me", "stream": False, "tools": [], "frequency_penalty": 0, "n": 1}
    harmless |= {"response_format": {"type": "text"}, "chat_template_kwargs": {"thinking": True}}
    assert text_of(chat(client, **harmless)) == text_of(chat(client))


def test_models(client: Client) -> None:
    reply = client.ok("/v1/models")
    (known,) = reply["data"]
    assert (reply["object"], known["object"]) == ("list", "model")
    assert known["id"] == client.ok("/model_info")["model_path"]
    assert known["max_model_len"] == CONTEXT
