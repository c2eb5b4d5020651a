"""Trajectories from question to end: what is sent, recorded and told to the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from support.loops import Stage, Turns, spans_text
from support.replies import Reply, ReplyEngine
from support.search import ScriptedSearch
from support.templates import chat_tokenizer
from support.tokenizers import byte_tokenizer
from support.trajectories import one_by_one, run

from spader_slime.episode import Document, End, TurnKind

BYTES = byte_tokenizer()
SEARCH = '<think>hm</think><tool_call>["Oslo", "Bergen"]</tool_call>'
AGAIN = '<tool_call>{"name": "search", "arguments": {"query_list": ["Lima"]}}</tool_call>'
ANSWER = '<answer>["Oslo", "Lima"]</answer>'
TEXT = 'It\'s "here".'


@pytest.fixture(scope="module")
def search() -> Iterator[ScriptedSearch]:
    with ScriptedSearch(lambda query: [(query, TEXT)]) as running:
        yield running


async def test_a_trajectory_from_question_to_answer(search: ScriptedSearch) -> None:
    episode, stage, engine = await run(search, Turns(SEARCH, AGAIN, ANSWER))
    assert (episode.end, episode.answer, episode.error) == (End.ANSWERED, ["Oslo", "Lima"], None)
    assert [t.kind for t in episode.turns] == [TurnKind.SEARCH, TurnKind.SEARCH, TurnKind.ANSWER]
    assert [t.queries for t in episode.turns] == [("Oslo", "Bergen"), ("Lima",), ()]
    assert [t.calls for t in episode.turns] == [2, 1, 0]
    assert episode.turns[0].documents == (Document("Oslo", TEXT), Document("Bergen", TEXT))
    assert {t.weight_versions for t in episode.turns} == {("3",)}
    assert [t.search_s > 0 for t in episode.turns] == [True, True, False]
    assert all(t.engine_s > 0 for t in episode.turns)
    assert spans_text(stage, episode) == [f"{t}<|im_end|>" for t in (SEARCH, AGAIN, ANSWER)]
    for call, (start, end) in zip(engine.calls, episode.step_spans, strict=True):
        assert call.input_ids == episode.prompt_ids + episode.response_ids[:start]
        assert call.output_ids == episode.response_ids[start:end]
        assert call.log_probs == episode.log_probs[start:end]


async def test_the_host_is_told_of_all_tokens(search: ScriptedSearch) -> None:
    told: list[tuple[Any, ...]] = []
    episode, stage, engine = await run(
        search, Turns(SEARCH, ANSWER), on_tokens=lambda *given: told.append(given)
    )
    first, last = engine.calls
    assert [token for ids, *_ in told for token in ids] == episode.response_ids
    assert [given[1] for given in told] == [first.log_probs, None, last.log_probs]
    assert [(given[2] or {}).get("weight_version") for given in told] == ["3", None, "3"]
    assert [stage.boundary.decode(ids) for ids, *_ in told] == [text for *_, text in told]


async def test_odd_spelling_is_never_tokenized_again(search: ScriptedSearch) -> None:
    """The policy writes letter by letter what has a token of its own."""
    tokenizer = chat_tokenizer("qwen3")
    end = tokenizer.eos_token_id
    said = [[*BYTES.encode(text, add_special_tokens=False), end] for text in (SEARCH, ANSWER)]
    assert tokenizer.decode(said[0][:-1]) == SEARCH
    assert tokenizer.encode(SEARCH, add_special_tokens=False) != said[0][:-1]
    replies = [Reply(tuple(ids), (-0.5,) * len(ids), "stop", end) for ids in said]
    with ReplyEngine(replies) as engine:
        async with Stage(tokenizer, engine.url, search.endpoint) as stage:
            episode = await stage.run()
    assert episode.end is End.ANSWERED and episode.turns[0].queries == ("Oslo", "Bergen")
    first, second = engine.inputs
    assert second[: len(first) + len(said[0])] == first + said[0]
    assert episode.response_ids[-len(said[1]) :] == said[1]


async def test_parameters_of_engine_calls(search: ScriptedSearch) -> None:
    given = {"top_p": 0.9, "max_new_tokens": 9999, "stop": "END", "stop_token_ids": [7]}
    kept = dict(given)
    _, stage, engine = await run(
        search,
        one_by_one("<answer>Oslo</answer>"),
        agent={"protocol": "search_r1", "max_turn_tokens": 50},
        sampling_params=given,
        headers={"X-SMG-Routing-Key": "me"},
    )
    (call,) = engine.calls
    assert call.headers["X-SMG-Routing-Key"] == "me" and given == kept
    assert call.params == {
        "top_p": 0.9,
        "max_new_tokens": 50,
        "stop": ["</search>", "</answer>", "END"],
        "stop_token_ids": [*stage.boundary.stop_token_ids, 7],
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        "no_stop_trim": True,
    }


@pytest.mark.parametrize(
    ("texts", "agent", "end", "steps"),
    [
        ((ANSWER,), {}, End.ANSWERED, 1),
        (("<answer>[]</answer>",), {}, End.ANSWERED, 1),
        (("<answer>[</answer>",), {}, End.INVALID, 1),
        (("<think>" + ANSWER,), {}, End.INVALID, 1),
        (("hello",), {}, End.INVALID, 1),
        ((SEARCH, "hello"), {}, End.INVALID, 2),
        (("hello",), {"on_no_action": "retry", "max_turns": 3}, End.TURN_LIMIT, 3),
        (("hello", ANSWER), {"on_no_action": "retry"}, End.ANSWERED, 2),
        (("<tool_call>",), {"max_turns": 2}, End.TURN_LIMIT, 2),
        ((SEARCH,), {"max_turns": 1}, End.TURN_LIMIT, 1),
        ((SEARCH, SEARCH, SEARCH, ANSWER), {"max_turns": 4}, End.ANSWERED, 4),
        ((ANSWER,), {"max_turn_tokens": 8}, End.TOKEN_LIMIT, 1),
        ((SEARCH,), {"max_turn_tokens": 30}, End.TOKEN_LIMIT, 1),
        ((ANSWER,), {"max_turn_tokens": len(ANSWER)}, End.ANSWERED, 1),  # only its end was cut
    ],
)
async def test_end_states(
    search: ScriptedSearch, texts: Sequence[str], agent: dict[str, Any], end: End, steps: int
) -> None:
    episode, _, _ = await run(search, Turns(*texts), agent=agent)
    assert (episode.end, len(episode.turns)) == (end, steps)
    assert (episode.answer is None) == (end is not End.ANSWERED)
    assert not episode.failed and episode.turns[-1].observation_tokens == 0


async def test_an_empty_turn_is_no_decision_step(search: ScriptedSearch) -> None:
    with ReplyEngine([Reply()]) as engine:
        async with Stage(BYTES, engine.url, search.endpoint) as stage:
            episode = await stage.run()
    assert (episode.end, episode.turns, episode.response_ids) == (End.INVALID, [], [])
