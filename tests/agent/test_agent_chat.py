"""The client of chat endpoints: what is sent, what is tried again, what an episode ends as."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support.chat_server import ChatServer, reply
from support.chats import by_chat, known, scripted
from support.loops import NOWHERE, QUESTION, Stage, without_times
from support.search import ScriptedSearch
from support.templates import chat_tokenizer
from support.tokenizers import byte_tokenizer

from spader_slime.agent.chat import ChatPolicyClient, Conversation
from spader_slime.agent.loop import run_episode
from spader_slime.agent.policy import Generation
from spader_slime.agent.template import ChatBoundary
from spader_slime.episode import End, Episode
from spader_slime.errors import EngineError

BYTES = byte_tokenizer()
BOUNDARY = ChatBoundary(BYTES)
ASKED = [{"role": "user", "content": "Oslo?"}]
PARAMS = {"max_new_tokens": 50, "temperature": 0.7, "sampling_seed": 3, "stop": ["</x>"]}
PARAMS |= {"no_stop_trim": True, "stop_token_ids": [2], "top_k": None}
ANSWER = '<answer>["Oslo"]</answer>'


def generate(
    url: str,
    boundary: ChatBoundary = BOUNDARY,
    give_up: Callable[[], bool] = lambda: False,
    **client: Any,
) -> Generation:
    async def run() -> Generation:
        asker = ChatPolicyClient(url, "m", retries=2, backoff_s=0.01, **client)
        talk = Conversation(asker, boundary, ASKED, 4)
        try:
            return await talk.generate([1, 2, 3, 4], PARAMS, give_up=give_up, rid="r", request={})
        finally:
            await asker.close()

    return asyncio.run(run())


def test_what_is_sent_and_read() -> None:
    more = {"metadata": {"weight_version": 7}, "usage": {"completion_tokens": 3}}
    with ChatServer(reply(matched_stop=2) | more) as server:
        found = generate(server.url, api_key="secret")
    (body,), (headers,) = server.bodies, server.headers
    assert headers["Authorization"] == "Bearer secret"
    assert (body["model"], body["messages"]) == ("m", ASKED)
    assert (body["max_tokens"], body["seed"], body["temperature"]) == (50, 3, 0.7)
    assert body["no_stop_trim"] is body["include_stop_str_in_output"] is True
    names = {"max_new_tokens", "sampling_seed", "top_k", "rid", "continue_final_message"}
    assert names.isdisjoint(body)
    assert BYTES.decode(found.ids) == "hi<|im_end|>" and found.text == "hi"
    assert (found.finish, found.matched, found.weight_version) == ("stop", 2, "7")
    assert found.log_probs == [0.0] * 3 and found.meta_info["log_probs"] is None


def test_without_a_key_none_is_sent() -> None:
    with ChatServer(reply()) as server:
        generate(server.url)
    assert "Authorization" not in server.headers[0]


def test_variables_of_the_template_are_sent() -> None:
    boundary = ChatBoundary(chat_tokenizer("qwen3"), {"enable_thinking": False})
    with ChatServer(reply()) as server:
        generate(server.url, boundary)
    assert server.bodies[0]["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
def test_the_address_may_name_the_route(suffix: str) -> None:
    with ChatServer(reply()) as server:
        assert generate(server.url + suffix).ids


@pytest.mark.parametrize("fault", [500, 503, 429, b"{", {"choices": []}], ids=repr)
def test_passing_faults_are_tried_again(fault: Any) -> None:
    with ChatServer(fault, fault, reply()) as server:
        assert generate(server.url).text == "hi"
    assert len(server.bodies) == 3


FOR_GOOD: dict[str, tuple[Any, str, int]] = {
    "500": (500, r"engine status: .* 500: scripted fault", 3),
    "429": (429, "engine status", 3),
    "400": (400, r"engine status: .* 400: scripted fault", 1),
    "404": (404, "engine status", 1),
    "hang": ("hang", "engine timeout", 3),
    "not JSON": (b"\x00{", "engine malformed", 3),
    "list": ([], "engine malformed", 3),
    "null": (b"null", "engine malformed", 3),
    "no choices": ({}, "engine malformed", 3),
    "empty choices": ({"choices": []}, "engine malformed", 3),
    "no message": ({"choices": [{"finish_reason": "stop"}]}, "engine malformed", 3),
    "no content": ({"choices": [{"finish_reason": "stop", "message": {}}]}, "malformed", 3),
    "content type": (reply(["hi"]), "engine malformed: .* is no text", 3),
    "reasoning type": (reply(message={"reasoning_content": 5}), "is no text", 3),
    "no finish": (reply(finish=None), "engine malformed: finish_reason None", 1),
    "filtered": (reply(finish="content_filter"), "finish_reason 'content_filter'", 1),
    "tools": (reply(finish="tool_calls"), "tool-call parser", 1),
    "tool calls": (reply(None, message={"tool_calls": [{}]}), "tool-call parser", 1),
    "stop type": (reply(matched_stop=[1]), "a stop of", 1),
}


@pytest.mark.parametrize("name", FOR_GOOD)
def test_faults_for_good(name: str) -> None:
    fault, message, calls = FOR_GOOD[name]
    with ChatServer(fault) as server, pytest.raises(EngineError, match=message):
        generate(server.url, timeout_s=0.4 if fault == "hang" else 30)
    assert len(server.bodies) == calls


def test_nothing_is_tried_again_once_the_host_stops() -> None:
    with ChatServer(500) as server, pytest.raises(EngineError):
        generate(server.url, give_up=lambda: True)
    assert len(server.bodies) == 1


def test_an_endpoint_that_is_down() -> None:
    with ChatServer(reply()) as server:
        url = server.url
    with pytest.raises(EngineError, match="engine connection"):
        generate(url)


ENDS: dict[str, tuple[Any, End]] = {
    "answer": (reply(ANSWER), End.ANSWERED),
    "answer at the limit": (reply(ANSWER, "length"), End.ANSWERED),
    "empty": (reply(""), End.INVALID),
    "null": (reply(None), End.INVALID),
    "empty at the limit": (reply("", "length"), End.TOKEN_LIMIT),
    "cut": (reply("<answer>", "length"), End.TOKEN_LIMIT),
    "abort": (reply("<ans", "abort"), End.ABORTED),
    "refused": (400, End.INFRASTRUCTURE),
    "broken": (b"", End.INFRASTRUCTURE),
}


@pytest.mark.parametrize("name", ENDS)
async def test_how_an_episode_ends(name: str) -> None:
    answer, end = ENDS[name]
    with ChatServer(answer) as server:
        async with Stage(BYTES, NOWHERE) as stage:
            episode = await by_chat(stage, server.url)
    assert episode.end is end
    assert (episode.error is not None) == (end in (End.INVALID, End.INFRASTRUCTURE))


async def test_an_aborted_turn_goes_on_in_its_message() -> None:
    with ChatServer(reply(ANSWER[:9], "abort"), reply(ANSWER[9:]), reply(ANSWER)) as server:
        async with Stage(BYTES, NOWHERE) as stage:
            client = ChatPolicyClient(server.url, "m")
            context = client.joined(stage.context, stage.protocol.messages(QUESTION))
            halted = await run_episode(context)
            assert (halted.end, halted.open_turn) == (End.ABORTED, True)
            episode = await run_episode(context, halted)
            whole = await by_chat(stage, server.url)
            await client.close()
    assert without_times(episode) == without_times(whole) and episode.answer == ["Oslo"]
    body = server.bodies[1]
    assert body["messages"][-1] == {"role": "assistant", "content": ANSWER[:9]}
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)


async def test_an_episode_begun_elsewhere_is_refused() -> None:
    with ChatServer(reply(ANSWER)) as server:
        async with Stage(BYTES, NOWHERE) as stage:
            client = ChatPolicyClient(server.url, "m")
            context = client.joined(stage.context, stage.protocol.messages(QUESTION))
            begun = Episode(prompt_ids=list(context.prompt_ids), response_ids=[5])
            begun.loss_mask, begun.log_probs = [1], [0.0]
            ended = await run_episode(replace(context), begun)
            await client.close()
    assert ended.end is End.INFRASTRUCTURE and "did not begin" in str(ended.error)
    assert not server.bodies


async def test_an_endpoint_that_cuts_stops_off_and_keeps_silent_about_them() -> None:
    """As far as text can tell, the trajectory is the one of an endpoint that says all."""
    tags = ("search", "answer")
    said = ["<search> Oslo </search>", "So <search> Rome </search>", "<answer>Rome</answer>"]
    cut = [reply(text.removesuffix(f"</{t}>")) for text in said for t in tags if f"</{t}>" in text]
    with (
        ScriptedSearch(lambda query: [(query, "A town.")]) as search,
        ChatServer(*cut) as server,
        scripted(BYTES, said) as (client, _),
    ):
        async with Stage(BYTES, client.url, search.endpoint, {"protocol": "search_r1"}) as stage:
            chat, native = await by_chat(stage, server.url), await stage.run()
    one, other = known(chat), known(native)
    assert [turn.pop("weight_versions") for turn in one["turns"]] == [()] * 3
    assert [turn.pop("weight_versions") for turn in other["turns"]] == [("3",)] * 3
    assert one == other and chat.answer == ["Rome"]
