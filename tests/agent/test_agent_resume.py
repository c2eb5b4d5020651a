"""Aborted trajectories: wherever the abort comes, going on gives what an undisturbed run gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.engine import ScriptedEngine
from support.loops import NOWHERE, Stage, Turns, check_arrays, without_times
from support.replies import Reply, ReplyEngine
from support.search import ScriptedSearch
from support.tokenizers import byte_tokenizer

from spader_slime.episode import End, Episode, TurnKind

BYTES = byte_tokenizer()
SEARCH, ANSWER = '<tool_call>["Oslo"]</tool_call>', '<answer>["Oslo"]</answer>'
PROTOCOLS = ("spader", "search_r1")
SAID = {  # the turns of a trajectory
    "spader": (SEARCH, '<tool_call>["Ålesund"]</tool_call>', ANSWER),
    "search_r1": ("<search>Oslo</search>", "<search>Ålesund</search>", "<answer>Oslo</answer>"),
}


def written(protocol: str) -> list[Reply]:
    """The turns as replies of an engine, with log-probs that differ from token to token."""
    replies = []
    for text in SAID[protocol]:
        end = [BYTES.eos_token_id] if protocol == "spader" else []
        ids = (*BYTES.encode(text, add_special_tokens=False), *end)
        log_probs = tuple(-(i + 1) / 64 for i in range(len(ids)))
        replies.append(Reply(ids, log_probs, "stop", ids[-1], "1"))
    return replies


def broken(reply: Reply, place: int) -> list[Reply]:
    """The same reply in two parts."""
    head = Reply(reply.ids[:place], reply.log_probs[:place], "abort", None, "1")
    return [head, Reply(reply.ids[place:], reply.log_probs[place:], "stop", reply.matched, "1")]


@pytest.fixture(scope="module")
def search() -> Iterator[ScriptedSearch]:
    with ScriptedSearch(lambda query: [(query, f"About {query}.")]) as running:
        yield running


def saved(episode: Episode) -> Episode:
    """As it comes back from a buffer on disk."""
    return Episode.from_dict(episode.to_dict())


class Switch:
    """An abort signal that somebody else sets, once or for good."""

    def __init__(self) -> None:
        self.on = False

    def __call__(self) -> bool:
        return self.on


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_turn_cut_anywhere_goes_on_as_one_step(
    search: ScriptedSearch, protocol: str
) -> None:
    agent, replies = {"protocol": protocol}, written(protocol)
    with ReplyEngine(replies) as engine:
        async with Stage(BYTES, engine.url, search.endpoint, agent) as stage:
            whole = await stage.run()
            assert whole.end is End.ANSWERED
            for turn, reply in enumerate(replies):
                for place in range(0, len(reply.ids), 3):
                    engine.replies = [*replies[:turn], *broken(reply, place), *replies[turn + 1 :]]
                    halted = await stage.run()
                    assert halted.end is End.ABORTED and halted.answer is None
                    assert halted.open_turn is (place > 0)
                    resumed = await stage.run(saved(halted))
                    check_arrays(resumed)
                    assert without_times(resumed) == without_times(whole)


async def test_a_turn_may_be_cut_again_and_again(search: ScriptedSearch) -> None:
    """Every weight version that sampled it is noted, and `max_turn_tokens` counts all of it."""
    first, *_, last = written("spader")
    parts = [
        Reply(first.ids[:9], first.log_probs[:9], "abort", None, "1"),
        Reply((), (), "abort", None, "2"),
        Reply(first.ids[9:12], first.log_probs[9:12], "abort", None, "3"),
        Reply(first.ids[12:], first.log_probs[12:], "stop", first.matched, "3"),
    ]
    with ReplyEngine([*parts, last]) as engine:
        async with Stage(
            BYTES, engine.url, search.endpoint, {"max_turn_tokens": 60}, max_context=9999
        ) as stage:
            episode = await stage.run()
            for _ in range(3):
                assert episode.end is End.ABORTED
                episode = await stage.run(saved(episode))
    assert episode.end is End.ANSWERED and len(episode.turns) == 2
    assert episode.turns[0].weight_versions == ("1", "3")
    asked = [request["sampling_params"]["max_new_tokens"] for request in engine.requests]
    assert asked == [60, 51, 51, 48, 60]


async def test_an_abort_before_the_first_call_costs_nothing(search: ScriptedSearch) -> None:
    with ScriptedEngine(BYTES, Turns(ANSWER)) as engine:
        async with Stage(BYTES, engine.url, search.endpoint) as stage:
            episode = await stage.run(aborted=lambda: True)
            assert (episode.end, episode.response_ids, episode.turns) == (End.ABORTED, [], [])
            assert not engine.calls
            assert (await stage.run(saved(episode))).end is End.ANSWERED


async def halt_and_resume(
    engine_script: Callable[[str], str], search: ScriptedSearch, switch: Switch
) -> tuple[Episode, Episode]:
    """(as it was aborted, as it ended)"""
    with ScriptedEngine(BYTES, engine_script) as engine:
        async with Stage(BYTES, engine.url, search.endpoint) as stage:
            halted = await stage.run(aborted=switch)
            before = saved(halted)
            switch.on = False
            resumed = await stage.run(halted)
            calls = len(engine.calls)
            switch.on = False
            assert without_times(await stage.run()) == without_times(resumed)
            assert len(engine.calls) == 2 * calls  # nothing was sampled twice
    return before, resumed


async def test_an_abort_before_a_search(search: ScriptedSearch) -> None:
    switch, said = Switch(), Turns(SEARCH, ANSWER)
    armed = [True]

    def script(text: str) -> str:
        switch.on = armed.pop() if armed else False  # the host stops while the turn is sampled
        return said(text)

    sent = len(search.requests)
    halted, resumed = await halt_and_resume(script, search, switch)
    assert halted.end is End.ABORTED and not halted.open_turn
    assert (halted.turns[0].kind, halted.turns[0].documents) == (TurnKind.SEARCH, ())
    assert resumed.end is End.ANSWERED and resumed.turns[0].documents
    assert len(search.requests) - sent == 2  # one for each of the two whole trajectories


async def test_an_abort_during_a_search() -> None:
    """What was found is dropped, and looked for again."""
    switch, armed = Switch(), [True]

    def find(query: str) -> list[tuple[str, str]]:
        switch.on = armed.pop() if armed else False
        return [(query, "Capital.")]

    with ScriptedSearch(find) as search:
        halted, resumed = await halt_and_resume(Turns(SEARCH, ANSWER), search, switch)
        assert len(search.requests) == 3
    assert halted.end is End.ABORTED and halted.turns[0].observation_tokens == 0
    assert resumed.end is End.ANSWERED and resumed.turns[0].documents


async def test_an_abort_while_a_broken_search_is_tried_again() -> None:
    switch, armed = Switch(), [True]

    def fault(number: int) -> str:
        switch.on = armed.pop() if armed else False
        return "status" if number == 1 else ""

    with ScriptedSearch(lambda query: [(query, "Capital.")], fault) as search:
        halted, resumed = await halt_and_resume(Turns(SEARCH, ANSWER), search, switch)
        assert len(search.requests) == 3
    assert (halted.end, halted.turns[0].search_error) == (End.ABORTED, None)
    assert resumed.end is End.ANSWERED


async def test_an_answer_that_is_complete_outlives_the_abort(search: ScriptedSearch) -> None:
    switch = Switch()

    def script(text: str) -> str:
        switch.on = True
        return ANSWER

    with ScriptedEngine(BYTES, script) as engine:
        async with Stage(BYTES, engine.url, search.endpoint) as stage:
            assert (await stage.run(aborted=switch)).end is End.ANSWERED


async def test_an_engine_that_fails_in_an_abort_is_no_fault(search: ScriptedSearch) -> None:
    switch = Switch()

    def fail(call: Any) -> bool:
        switch.on = True
        return True

    with ScriptedEngine(BYTES, Turns(ANSWER)) as engine:
        engine.fail = fail
        async with Stage(BYTES, engine.url, NOWHERE) as stage:
            episode = await stage.run(aborted=switch)
    assert episode.end is End.ABORTED and episode.failed


async def test_room_that_an_open_turn_used_up_ends_it(search: ScriptedSearch) -> None:
    """Resumed at the limit: what is there counts, an answer if it is complete."""
    ids = tuple(BYTES.encode(ANSWER, add_special_tokens=False))
    for kept, end in ((len(ids), End.ANSWERED), (len(ids) - 1, End.TOKEN_LIMIT)):
        replies = [Reply(ids[:kept], (-0.5,) * kept, "abort")]
        with ReplyEngine(replies) as engine:
            agent = {"max_turn_tokens": kept}
            async with Stage(BYTES, engine.url, search.endpoint, agent) as stage:
                halted = await stage.run()
                assert halted.end is End.ABORTED
                resumed = await stage.run(saved(halted))
        assert (resumed.end, resumed.open_turn) == (end, False)
