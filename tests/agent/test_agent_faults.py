"""Faults of the engine and of the search service inside the loop: typed, counted, never raised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import web
from support.engine import ScriptedEngine
from support.loops import NOWHERE, Stage, Turns, check_arrays, observations
from support.replies import Reply, ReplyEngine
from support.search import ScriptedSearch
from support.tokenizers import byte_tokenizer
from support.web import LoopbackServer

from spader_slime.episode import End, Episode, TurnKind
from spader_slime.errors import SEARCH_ERROR_KINDS

BYTES = byte_tokenizer()
SEARCH, ANSWER = '<tool_call>["Oslo"]</tool_call>', '<answer>["Oslo"]</answer>'
FAULTS = {
    "status": "status",
    "slow": "timeout",
    "garbage": "malformed",
    "shape": "malformed",
    "huge": "oversized",
}


def find(query: str) -> list[tuple[str, str]]:
    return [(query, f"About {query}.")]


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(BYTES, Turns(SEARCH, SEARCH, ANSWER)) as running:
        yield running


async def play(engine_url: str, search_url: str, **options: Any) -> tuple[Episode, Stage]:
    async with Stage(BYTES, engine_url, search_url, **options) as stage:
        episode = await stage.run()
    check_arrays(episode)
    return episode, stage


def check_lost_to(episode: Episode, kind: str, turns: int) -> None:
    """The episode ended with the search of its last turn, which says why."""
    assert kind in SEARCH_ERROR_KINDS
    assert episode.end is End.INFRASTRUCTURE and episode.failed and episode.answer is None
    assert (episode.error or "").startswith(f"search {kind}: ")
    last = episode.turns[-1]
    assert len(episode.turns) == turns and last.kind is TurnKind.SEARCH
    assert last.search_error == kind and last.search_s > 0
    assert (last.documents, last.observation_tokens) == ((), 0)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_search_that_fails_for_good_ends_the_episode(
    engine: ScriptedEngine, fault: str
) -> None:
    timeout = {"timeout_s": 0.5 if fault == "slow" else 30}
    with ScriptedSearch(find, lambda number: fault if number > 1 else "") as search:
        episode, _ = await play(engine.url, search.endpoint, search=timeout)
    check_lost_to(episode, FAULTS[fault], turns=2)
    assert episode.turns[0].search_error is None and episode.turns[0].documents


async def test_a_search_service_that_is_down(engine: ScriptedEngine) -> None:
    episode, _ = await play(engine.url, NOWHERE)
    check_lost_to(episode, "connection", turns=1)


async def test_a_passing_fault_leaves_no_trace(engine: ScriptedEngine) -> None:
    with ScriptedSearch(find, lambda number: "status" if number % 2 else "") as search:
        episode, _ = await play(engine.url, search.endpoint)
        assert len(search.requests) == 4
    assert episode.end is End.ANSWERED
    assert [turn.search_error for turn in episode.turns] == [None] * 3


def answering(statuses: Callable[[int], int]) -> LoopbackServer:
    """A service whose n-th answer has status `statuses(n)`; 200 finds one document."""
    seen: list[int] = []

    async def reply(request: web.Request) -> web.Response:
        seen.append(1)
        return web.json_response(
            {"result": [[{"contents": "Oslo\nA."}]]}, status=statuses(len(seen))
        )

    return LoopbackServer({"/retrieve": reply})


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_refused_search_is_told_to_the_model(engine: ScriptedEngine, status: int) -> None:
    with answering(lambda number: status if number == 1 else 200) as search:
        episode, stage = await play(engine.url, f"{search.url}/retrieve")
    assert episode.end is End.ANSWERED and not episode.failed
    assert [turn.search_error for turn in episode.turns] == ["status", None, None]
    assert episode.turns[0].documents == () and episode.turns[1].documents
    assert "Error: The search service refused these queries." in observations(stage, episode)[0]


async def test_an_episode_in_which_every_search_was_refused_is_lost(
    engine: ScriptedEngine,
) -> None:
    with answering(lambda number: 422) as search:
        episode, _ = await play(engine.url, f"{search.url}/retrieve")
    assert episode.end is End.INFRASTRUCTURE
    assert "no search of the episode worked" in (episode.error or "")
    assert [turn.search_error for turn in episode.turns] == ["status", "status", None]


@pytest.mark.parametrize("status", [401, 404, 429])
async def test_a_4xx_that_is_not_about_the_queries_is_no_fault_of_the_model(
    engine: ScriptedEngine, status: int
) -> None:
    with answering(lambda number: 200 if number == 1 else status) as search:
        episode, _ = await play(engine.url, f"{search.url}/retrieve")
    check_lost_to(episode, "status", turns=2)


PASSING = [Reply(status=500), Reply(hang_up=True), Reply(raw=b"{")]
IDS = tuple(BYTES.encode(ANSWER, add_special_tokens=False))
GOOD = Reply(IDS, (-0.5,) * len(IDS))


@pytest.mark.parametrize("fault", PASSING, ids=["status", "hang up", "garbage"])
async def test_an_engine_call_that_fails_is_made_again(fault: Reply) -> None:
    with ReplyEngine([fault, fault, GOOD]) as engine:
        episode, _ = await play(engine.url, NOWHERE)
        assert len(engine.requests) == 3
        assert engine.inputs == [episode.prompt_ids] * 3
    assert episode.end is End.ANSWERED and episode.response_ids == list(IDS)


@pytest.mark.parametrize("fault", PASSING, ids=["status", "hang up", "garbage"])
async def test_an_engine_that_keeps_failing_loses_the_episode(fault: Reply) -> None:
    with ReplyEngine([fault] * 3) as engine:
        episode, _ = await play(engine.url, NOWHERE)
        assert len(engine.requests) == 3
    assert episode.end is End.INFRASTRUCTURE and not episode.turns
    assert (episode.error or "").startswith("engine ")


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_what_the_engine_refuses_is_not_asked_again(status: int) -> None:
    with ReplyEngine([Reply(status=status), GOOD]) as engine:
        episode, _ = await play(engine.url, NOWHERE)
        assert len(engine.requests) == 1
    assert episode.end is End.INFRASTRUCTURE
    assert f"answered {status}: prepared fault" in (episode.error or "")


async def test_an_engine_lost_on_the_way_keeps_what_was_sampled(engine: ScriptedEngine) -> None:
    engine.fail = lambda call: bool(engine.calls)
    with ScriptedSearch(find) as search:
        episode, _ = await play(engine.url, search.endpoint)
    assert episode.end is End.INFRASTRUCTURE and len(episode.turns) == 1
    assert episode.turns[0].documents and episode.turns[0].observation_tokens
    assert (episode.error or "").startswith("engine status: ")


@pytest.mark.parametrize("log_probs", [b"1e999", b"NaN", b"null", b'"x"', b'"nan"', b'"-inf"'])
async def test_log_probs_that_are_no_numbers_are_the_engines_fault(log_probs: bytes) -> None:
    """One that can't be represented, and -1e308 twice, whose sum can't."""
    triples = b"[[%s,5,null],[-1e308,6,null],[-1e308,6,null]]" % log_probs
    meta = b'{"finish_reason":{"type":"stop"},"output_token_logprobs":%s}' % triples
    with ReplyEngine([Reply(raw=b'{"meta_info":%s}' % meta)] * 3) as engine:
        episode, _ = await play(engine.url, NOWHERE)
    assert episode.end is End.INFRASTRUCTURE and episode.response_ids == []
    assert (episode.error or "").startswith("engine malformed: ")


async def test_log_probs_of_any_size_are_read() -> None:
    with ReplyEngine([Reply(IDS, (-1e308,) * len(IDS))]) as engine:
        episode, _ = await play(engine.url, NOWHERE)
    assert episode.end is End.ANSWERED and set(episode.log_probs) == {-1e308}


async def test_nothing_is_tried_again_once_the_host_stops_during_the_pause() -> None:
    asked = iter([False, False])  # before the call, and after it failed
    with ReplyEngine([Reply(status=500), GOOD]) as engine:
        async with Stage(BYTES, engine.url) as stage:
            episode = await stage.run(aborted=lambda: next(asked, True))
        assert len(engine.requests) == 1
    assert episode.end is End.ABORTED
