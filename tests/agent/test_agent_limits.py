"""Limits of tokens and turns in whole trajectories; the engine refuses input that is too long."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine import Call, ScriptedEngine
from support.loops import Stage, Turns, check_arrays, observations
from support.search import ScriptedSearch
from support.tokenizers import byte_tokenizer

from spader_slime.agent.protocol import make_protocol
from spader_slime.config import AgentConfig
from spader_slime.episode import End, Episode

BYTES = byte_tokenizer()
SEARCH, ANSWER = '<tool_call>["Oslo", "Bergen"]</tool_call>', '<answer>["Oslo"]</answer>'
NOTES = [make_protocol(AgentConfig(protocol=p)).answer_now for p in ("spader", "spader_cited")]


def searching(text: str) -> str:
    """Searches until it is told to answer."""
    return ANSWER if any(note in text for note in NOTES) else SEARCH


def stubborn(text: str) -> str:
    return SEARCH


@pytest.fixture(scope="module")
def search() -> Iterator[ScriptedSearch]:
    with ScriptedSearch(lambda query: [(query, "Bodø is far away. " * 9)] * 3) as running:
        yield running


@pytest.fixture(scope="module")
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(BYTES, searching) as running:
        yield running


def check_limits(stage: Stage, episode: Episode, calls: list[Call]) -> None:
    """What holds in every trajectory, whatever the limits."""
    check_arrays(episode)
    budget, agent, protocol = stage.context.budget, stage.agent, stage.protocol
    assert len(episode.response_ids) <= budget.max_response
    assert len(episode.turns) <= agent.max_turns
    for call in calls:
        assert 1 <= call.params["max_new_tokens"] <= budget.max_turn
        if budget.max_context is not None:
            assert len(call.input_ids) + call.params["max_new_tokens"] < budget.max_context
    for turn, text in zip(episode.turns, observations(stage, episode), strict=True):
        before = Episode(prompt_ids=episode.prompt_ids)
        before.response_ids = episode.response_ids[: turn.span[1] + turn.observation_tokens]
        if turn.documents:
            assert turn.observation_tokens <= budget.max_observation
            assert budget.room(before) >= max(budget.reserve, 1)
        elif text:
            assert budget.room(before) >= budget.least_answer
            assert protocol.answer_now in text or "Error: " in text
    if episode.turns:
        assert episode.turns[-1].observation_tokens == 0  # a turn follows every observation


limits = st.fixed_dictionaries(
    {
        "max_response": st.integers(260, 1500),
        "max_context": st.none() | st.integers(300, 2500),
    }
)
agents = st.fixed_dictionaries(
    {
        "protocol": st.sampled_from(["spader", "spader_cited"]),
        "max_turns": st.integers(1, 6),
        "max_turn_tokens": st.integers(20, 120),
        "max_observation_tokens": st.integers(1, 600),
        "on_no_action": st.sampled_from(["end", "retry"]),
    }
)


@settings(deadline=None, max_examples=60)
@given(limits, agents, st.integers(0, 250), st.sampled_from([searching, stubborn]))
def test_no_limit_is_ever_passed(
    engine: ScriptedEngine,
    search: ScriptedSearch,
    limits: dict[str, int],
    agent: dict[str, object],
    reserve: int,
    script: object,
) -> None:
    engine.script, engine.context = script, limits["max_context"]  # type: ignore[assignment]
    engine.calls.clear()

    async def run() -> tuple[Stage, Episode]:
        options = {**agent, "answer_reserve": reserve}
        async with Stage(BYTES, engine.url, search.endpoint, options, **limits) as stage:
            return stage, await stage.run()

    stage, episode = asyncio.run(run())
    check_limits(stage, episode, engine.calls)
    assert episode.end in (End.ANSWERED, End.TURN_LIMIT, End.TOKEN_LIMIT)
    if script is stubborn:
        assert episode.end is not End.ANSWERED


@settings(deadline=None, max_examples=40)
@given(st.integers(450, 1500), st.integers(2, 6), st.integers(1, 600), st.booleans())
def test_a_policy_that_obeys_always_gets_to_answer(
    engine: ScriptedEngine,
    search: ScriptedSearch,
    max_response: int,
    max_turns: int,
    max_observation_tokens: int,
    cited: bool,
) -> None:
    """The reserve holds the note, the answer and a search made in ignorance of the limit."""
    engine.script, engine.context = searching, None
    agent = {
        "protocol": "spader_cited" if cited else "spader",
        "max_turns": max_turns,
        "max_observation_tokens": max_observation_tokens,
        "answer_reserve": 250,
    }

    async def run() -> Episode:
        async with Stage(
            BYTES, engine.url, search.endpoint, agent, max_response=max_response
        ) as stage:
            return await stage.run()

    assert asyncio.run(run()).end is End.ANSWERED


async def test_search_is_skipped_where_no_result_could_be_shown(engine: ScriptedEngine) -> None:
    engine.script, engine.context = searching, None
    with ScriptedSearch(lambda query: []) as search:
        agent = {"answer_reserve": 300}
        async with Stage(BYTES, engine.url, search.endpoint, agent, max_response=420) as stage:
            episode = await stage.run()
        assert not search.requests
    (told, _) = observations(stage, episode)
    assert f"tool\n{stage.protocol.answer_now}<|im_end|>" in told
    assert episode.end is End.ANSWERED and episode.turns[0].cut
    assert episode.turns[0].search_error is None


async def test_no_words_are_wasted_where_no_answer_could_follow(search: ScriptedSearch) -> None:
    with ScriptedEngine(BYTES, Turns(SEARCH)) as engine:
        async with Stage(
            BYTES, engine.url, search.endpoint, {"answer_reserve": 20}, max_response=90
        ) as stage:
            episode = await stage.run()
    assert episode.end is End.TOKEN_LIMIT and len(episode.turns) == 1
    assert len(episode.response_ids) == len(SEARCH) + 1


async def test_a_prompt_that_fills_the_context_samples_nothing(search: ScriptedSearch) -> None:
    with ScriptedEngine(BYTES, Turns(ANSWER)) as engine:
        async with Stage(BYTES, engine.url, search.endpoint) as stage:
            length = len(stage.context.prompt_ids)
        for room, end in ((0, End.TOKEN_LIMIT), (1, End.TOKEN_LIMIT), (2, End.TOKEN_LIMIT)):
            engine.calls.clear()
            engine.context = length + room
            async with Stage(
                BYTES, engine.url, search.endpoint, max_context=length + room
            ) as stage:
                episode = await stage.run()
            sampled = max(room - 1, 0)
            assert (episode.end, len(episode.response_ids)) == (end, sampled)
            assert len(engine.calls) == min(sampled, 1) == len(episode.turns)


async def test_a_long_observation_says_that_it_was_cut(search: ScriptedSearch) -> None:
    with ScriptedEngine(BYTES, Turns(SEARCH, ANSWER)) as engine:
        agent = {"max_observation_tokens": 400}
        async with Stage(BYTES, engine.url, search.endpoint, agent) as stage:
            episode = await stage.run()
    first = episode.turns[0]
    (text, _) = observations(stage, episode)
    assert first.cut and 300 < first.observation_tokens <= 400
    assert stage.protocol.cut_note in text and stage.protocol.answer_now not in text
    assert [d.title for d in first.documents] == ["Oslo", "Bergen"]
    assert all(d.text in text for d in first.documents)
