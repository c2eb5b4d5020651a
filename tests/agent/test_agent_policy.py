"""The engine client: what is sent, what is read, what is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from support.engine import Call, ScriptedEngine
from support.tokenizers import byte_tokenizer
from support.web import LoopbackServer

from spader_slime.agent.policy import Generation, PolicyClient
from spader_slime.errors import EngineError

PARAMS = {"max_new_tokens": 50, "temperature": 0.7}


def generate(
    url: str, give_up: Callable[[], bool] = lambda: False, timeout_s: float = 30, **request: Any
) -> Generation:
    async def run() -> Generation:
        client = PolicyClient(url, retries=2, backoff_s=0.01, timeout_s=timeout_s)
        try:
            return await client.generate([5, 6], PARAMS, give_up=give_up, **request)
        finally:
            await client.close()

    return asyncio.run(run())


def counting(limit: int, seen: list[Call]) -> Callable[[Call], bool]:
    """True for the first `limit` calls."""

    def fault(call: Call) -> bool:
        seen.append(call)
        return len(seen) <= limit

    return fault


@pytest.fixture
def engine() -> Any:
    with ScriptedEngine(byte_tokenizer(), lambda text: "hello", "7") as running:
        yield running


def test_ids_go_in_and_come_out(engine: ScriptedEngine) -> None:
    found = generate(engine.url, headers={"X-SMG-Routing-Key": "me"})
    (call,) = engine.calls
    assert call.input_ids == [5, 6] and call.params == PARAMS
    assert call.headers["X-SMG-Routing-Key"] == "me"
    assert (found.ids, found.log_probs) == (call.output_ids, call.log_probs)
    assert found.ids[-1] == found.matched == engine.tokenizer.eos_token_id
    assert (found.finish, found.weight_version) == ("stop", "7")
    assert found.meta_info["completion_tokens"] == len(found.ids)


@pytest.mark.parametrize("suffix", ["", "/", "/generate"])
def test_the_address_may_name_the_route(engine: ScriptedEngine, suffix: str) -> None:
    assert generate(engine.url + suffix).ids


def test_server_errors_are_tried_again(engine: ScriptedEngine) -> None:
    seen: list[Call] = []
    engine.fail = counting(2, seen)
    assert generate(engine.url).ids and len(seen) == 3


def test_but_not_for_ever(engine: ScriptedEngine) -> None:
    seen: list[Call] = []
    engine.fail = counting(99, seen)
    with pytest.raises(EngineError, match=r"engine status: .* 500: scripted failure"):
        generate(engine.url)
    assert len(seen) == 3


def test_refusals_are_never_tried_again(engine: ScriptedEngine) -> None:
    seen: list[Call] = []
    engine.refuse = counting(99, seen)
    with pytest.raises(EngineError, match="400: scripted refusal"):
        generate(engine.url)
    assert len(seen) == 1


def test_nor_is_anything_once_the_rollout_is_over(engine: ScriptedEngine) -> None:
    seen: list[Call] = []
    engine.fail = counting(99, seen)
    with pytest.raises(EngineError):
        generate(engine.url, give_up=lambda: True)
    assert len(seen) == 1


def test_an_engine_that_is_down(engine: ScriptedEngine) -> None:
    with ScriptedEngine(engine.tokenizer, lambda text: "") as gone:
        url = gone.url
    with pytest.raises(EngineError, match="engine connection"):
        generate(url)


def test_an_engine_that_hangs(engine: ScriptedEngine) -> None:
    seen: list[Call] = []
    engine.hold = lambda call: True
    engine.fail = lambda call: bool(seen.append(call))  # type: ignore[func-returns-value]
    with pytest.raises(EngineError, match="engine timeout"):
        generate(engine.url, timeout_s=0.5)
    assert len(seen) == 3


def replying(body: Any) -> LoopbackServer:
    async def reply(request: web.Request) -> web.Response:
        return web.json_response(body)

    return LoopbackServer({"/generate": reply})


def test_a_request_aborted_in_the_queue_has_no_tokens() -> None:
    meta = {"finish_reason": {"type": "abort", "message": "x"}, "completion_tokens": 0}
    with replying({"text": "", "meta_info": meta}) as server:
        found = generate(server.url)
    assert (found.ids, found.log_probs, found.finish) == ([], [], "abort")
    assert found.weight_version is None


STOP = {"finish_reason": {"type": "stop"}}


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"meta_info": {}},
        {"meta_info": {"finish_reason": None}},
        {"meta_info": STOP | {"completion_tokens": 3}},
        {"meta_info": STOP | {"output_token_logprobs": [[None, 5, None]]}},
        {"meta_info": STOP | {"output_token_logprobs": [[-0.5]]}},
        {"meta_info": STOP | {"output_token_logprobs": 7}},
    ],
)
def test_replies_that_cannot_be_read(body: Any) -> None:
    with replying(body) as server, pytest.raises(EngineError, match="engine malformed"):
        generate(server.url)


def test_log_probs_that_are_no_numbers() -> None:
    async def reply(request: web.Request) -> web.Response:
        meta = '{"finish_reason": {"type": "stop"}, "output_token_logprobs": [[1e999, 5]]}'
        text = f'{{"meta_info": {meta}}}'
        return web.Response(text=text, content_type="application/json")

    with LoopbackServer({"/generate": reply}) as server, pytest.raises(EngineError):
        generate(server.url)
