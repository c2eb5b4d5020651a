"""Limits in tokens, and observations that keep to them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tokenizers import byte_tokenizer

from spader_slime.agent.budget import TokenBudget, largest, make_budget
from spader_slime.agent.cutting import shorten
from spader_slime.agent.observe import Observation, Observer
from spader_slime.agent.protocol import Protocol, make_protocol
from spader_slime.agent.template import ChatBoundary
from spader_slime.agent.transcript import Transcript
from spader_slime.config import AgentConfig
from spader_slime.episode import Document, Episode, Turn, TurnKind
from spader_slime.errors import ConfigError

BOUNDARY = ChatBoundary(byte_tokenizer())
PROTOCOLS = {
    name: make_protocol(AgentConfig(protocol=name))
    for name in ("spader", "spader_cited", "search_r1")
}
PROMPT, SAMPLED, MAX_TURNS = 30, 40, 9

budgets = st.builds(
    TokenBudget,
    max_response=st.integers(SAMPLED, 700),
    max_context=st.none() | st.integers(PROMPT + SAMPLED, 800),
    max_turn=st.integers(1, 400),
    max_observation=st.integers(1, 500),
    reserve=st.integers(0, 300),
)
texts = st.integers(1, 8).map(lambda count: " ".join(["Bodø 1,000"] * count))
documents = st.builds(Document, st.just("Bodø"), texts)
results = st.lists(st.lists(documents, min_size=1, max_size=3), min_size=1, max_size=2)
protocols = st.sampled_from([*PROTOCOLS.values()])
few_turns = st.sampled_from([2, MAX_TURNS])  # one is left, or many


def searched() -> Episode:
    """A trajectory whose first turn just ended."""
    return Episode(
        prompt_ids=[5] * PROMPT,
        response_ids=[5] * SAMPLED,
        loss_mask=[1] * SAMPLED,
        log_probs=[-0.5] * SAMPLED,
        turns=[Turn((0, SAMPLED), TurnKind.SEARCH)],
    )


def observer(protocol: Protocol, budget: TokenBudget, max_turns: int = MAX_TURNS) -> Observer:
    return Observer(protocol, BOUNDARY, budget, Transcript(searched()), max_turns)


def show(writer: Observer, found: list[list[Document]]) -> Observation | None:
    return writer.results([f"q{n}" for n in range(len(found))], found, ["A note."])


def after(shown: Observation) -> Episode:
    episode = searched()
    episode.response_ids += shown.ids
    return episode


@given(budgets, st.integers(0, 700))
def test_what_may_be_sampled_stays_within_all_limits(budget: TokenBudget, used: int) -> None:
    episode = Episode(prompt_ids=[5] * PROMPT, response_ids=[5] * used)
    room = budget.new_tokens(episode)
    assert room <= budget.max_turn and used + room <= max(budget.max_response, used)
    if budget.max_context is not None and room > 0:
        assert PROMPT + used + room < budget.max_context  # the engine refuses what reaches it
    assert budget.new_tokens(episode, in_turn=3) <= budget.max_turn - 3


@given(budgets)
def test_after_the_longest_observation_the_reserve_is_left(budget: TokenBudget) -> None:
    episode = searched()
    longest = budget.observation(episode)
    assert longest <= budget.max_observation
    episode.response_ids += [5] * max(longest, 0)
    if longest > 0:
        assert budget.room(episode) >= max(budget.reserve, 1)
        assert budget.new_tokens(episode) >= min(budget.max_turn, max(budget.reserve, 1))


@settings(deadline=None, max_examples=60)
@given(protocols, budgets, results, few_turns)
def test_results_never_pass_a_limit(
    protocol: Protocol, budget: TokenBudget, found: list[list[Document]], max_turns: int
) -> None:
    shown = show(observer(protocol, budget, max_turns), found)
    if shown is None:
        return
    assert shown.ids == BOUNDARY.encode(shown.text)
    left = budget.room(after(shown))
    if shown.documents:
        assert len(shown.ids) <= budget.max_observation
        assert left >= max(budget.reserve, 1)
    assert left >= budget.least_answer  # a bare word to the model may use some of the reserve


@settings(deadline=None, max_examples=30)
@given(protocols, budgets, results, few_turns)
def test_results_are_cut_no_more_than_needed(
    protocol: Protocol, budget: TokenBudget, found: list[list[Document]], max_turns: int
) -> None:
    """Against the slow way: try every number of characters."""
    shown = show(observer(protocol, budget, max_turns), found)
    limit = budget.observation(searched())
    queries = [f"q{n}" for n in range(len(found))]

    def fits(kept: list[list[Document]], notes: list[str]) -> bool:
        named = [(query, part) for query, part in zip(queries, kept, strict=True) if part]
        content = protocol.observation(*zip(*named, strict=True), 1, ["A note.", *notes])
        if protocol.inline:
            return len(BOUNDARY.encode(content)) <= limit
        return len(BOUNDARY.observation_ids(content, last_id=5)) <= limit

    last = [protocol.answer_now] if max_turns == 2 else []
    if fits(found, last):
        want = found
    else:
        tight = [protocol.answer_now] if last or limit < budget.max_observation else []
        sizes = range(sum(len(d.title) + len(d.text) for part in found for d in part), 0, -1)
        cuts = (shorten(found, size) for size in sizes)
        want = next(
            (kept for kept in cuts if any(kept) and fits(kept, [protocol.cut_note, *tight])), []
        )
    assert list(shown.documents if shown else ()) == [d for part in want for d in part]
    assert shown is None or shown.cut is (want is not found)


def test_a_query_whose_results_were_cut_does_not_look_empty() -> None:
    found = [[Document("Oslo", "word " * 40)], [Document("Bergen", "Rain.")], []]
    budget = TokenBudget(1000, None, 100, 230, 50)
    shown = show(observer(PROTOCOLS["spader"], budget), found)
    assert shown is not None and shown.cut and len(shown.documents) == 1
    assert 'Results for "q0":\n[1] Oslo\nword' in shown.text and '"q1"' not in shown.text
    assert 'Results for "q2":\nNo results.' in shown.text


@settings(deadline=None, max_examples=60)
@given(protocols, budgets, results, st.integers(0, 200))
def test_more_room_never_shows_less(
    protocol: Protocol, budget: TokenBudget, found: list[list[Document]], more: int
) -> None:
    wider = replace(budget, max_response=budget.max_response + more)
    shown = [show(observer(protocol, b), found) for b in (budget, wider)]
    sizes = [sum(len(d.text) for d in s.documents) if s else -1 for s in shown]
    assert sizes[0] <= sizes[1]


@settings(deadline=None, max_examples=60)
@given(protocols, budgets, results, few_turns)
def test_the_model_is_told_to_answer_when_it_can_do_nothing_else(
    protocol: Protocol, budget: TokenBudget, found: list[list[Document]], max_turns: int
) -> None:
    writer = observer(protocol, budget, max_turns)
    shown, told = show(writer, found), writer.told_to_answer()
    short_of_room = budget.observation(searched()) < budget.max_observation
    if shown is None:
        assert told is None
    elif max_turns == 2 or not shown.documents or (shown.cut and short_of_room):
        assert protocol.answer_now in shown.text
    else:
        assert protocol.answer_now not in shown.text


@settings(deadline=None, max_examples=60)
@given(protocols, budgets, st.text("xz", min_size=3, max_size=300))
def test_a_message_fits_or_gives_way(protocol: Protocol, budget: TokenBudget, text: str) -> None:
    shown = observer(protocol, budget).message(text)
    if shown is not None:
        left = budget.room(after(shown))
        whole = text in shown.text
        assert left >= (max(budget.reserve, 1) if whole else budget.least_answer)
        assert not shown.documents and (whole or protocol.answer_now in shown.text)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_without_reserve_one_token_is_left(name: str) -> None:
    """`answer_reserve: 0` still lets a turn follow each observation."""
    found = [[Document("Oslo", "word " * 200)]]
    budget = TokenBudget(400, None, 100, 1000, 0)
    shown = show(observer(PROTOCOLS[name], budget), found)
    assert shown is not None and shown.documents and shown.cut
    assert 1 <= budget.room(after(shown)) <= 5  # the rest of a word


@given(st.integers(0, 50), st.integers(-1, 60))
def test_largest(limit: int, true_up_to: int) -> None:
    tried: list[int] = []

    def fits(number: int) -> bool:
        tried.append(number)
        return number <= true_up_to

    assert largest(limit, fits) == max(0, min(limit, true_up_to))
    assert 0 not in tried and len(tried) <= limit.bit_length() + 1


def test_a_reserve_that_leaves_no_room_is_an_error() -> None:
    agent = AgentConfig(answer_reserve=100)
    assert make_budget(agent, 101, None).reserve == 100
    with pytest.raises(ConfigError, match=r"agent\.answer_reserve"):
        make_budget(agent, 100, None)
