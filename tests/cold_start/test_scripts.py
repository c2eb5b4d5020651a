"""Scripted trajectories: what they say, and that they stay within the limits."""

from __future__ import annotations

import random
import re

import pytest
from support.scripts import Parts, configured, make_parts, with_agent

from spader_slime.agent.budget import make_budget
from spader_slime.agent.protocol import make_protocol
from spader_slime.algorithms.answers import normalize, score_answer
from spader_slime.config import AgentConfig
from spader_slime.episode import TurnKind
from spader_slime.errors import ConfigError
from spader_slime.local.data_source import read_prompts
from spader_slime.local.scripts import Script, ScriptWriter
from spader_slime.local.world.build import WorldFiles


def scripts(parts: Parts, count: int, searches: int) -> list[Script]:
    rng = random.Random(7)
    questions = parts.guide.questions
    return [parts.curriculum.searching(rng, rng.choice(questions), searches) for _ in range(count)]


def strings(turn: str) -> list[str]:
    return re.findall(r'"([^"]*)"', turn)


def sourced(text: str) -> tuple[int, str]:
    number, _, name = text.removeprefix("[").partition("] ")
    return int(number), name


@pytest.mark.parametrize("searches", [1, 2, 4, 7])
def test_turns_are_searches_then_one_answer(parts: Parts, searches: int) -> None:
    for script in scripts(parts, 10, searches):
        kinds = [parts.protocol.parse(turn).kind for turn in script.turns]
        assert kinds == [TurnKind.SEARCH] * (len(kinds) - 1) + [TurnKind.ANSWER]
        assert 1 <= len(kinds) - 1 <= searches
    assert max(len(s.turns) for s in scripts(parts, 10, searches)) == searches + 1


def test_every_name_is_the_title_of_the_source_it_cites(parts: Parts) -> None:
    for script in scripts(parts, 20, 4):
        subject = strings(script.turns[0])[0].removeprefix("[0]")
        cited = [text.removesuffix(subject) for turn in script.turns[1:] for text in strings(turn)]
        for number, title in map(sourced, cited):
            assert script.documents[number - 1].title == title


def test_first_query_is_the_subject_and_no_query_comes_twice(parts: Parts) -> None:
    rng = random.Random(1)
    for question in parts.guide.questions[:10]:
        script = parts.curriculum.searching(rng, question, 5)
        queries = [parts.protocol.parse(turn).queries[0] for turn in script.turns[:-1]]
        assert queries[0] == question.subject
        assert len(set(queries)) == len(queries)
        assert all(query.endswith(f" {question.subject}") for query in queries[1:])


def test_answers_are_exactly_what_is_right_of_what_was_shown(parts: Parts) -> None:
    gold = {s.prompt: s.label for s in read_prompts(str(parts.files.questions("train")))}
    rng = random.Random(2)
    for question in parts.guide.questions[:20]:
        script = parts.curriculum.searching(rng, question, 3)
        answer = parts.protocol.parse(script.turns[-1]).answer
        score = score_answer(answer, gold[question.text])
        shown = {normalize(d.title) for d in script.documents}
        assert score.precision == 1.0
        assert round(score.recall * len(gold[question.text])) == len(shown & question.gold)


def test_a_wrong_document_is_not_cited(parts: Parts) -> None:
    question = parts.guide.questions[0]
    other = next(d for d in parts.guide.documents if not question.wants(d))
    right = next(d for d in parts.guide.documents if question.wants(d))
    assert question.wants(right)
    assert other.title not in question.gold


def test_the_mask_covers_the_turns_and_their_ends(parts: Parts) -> None:
    end = parts.decode([parts.boundary.end_id])
    for script in scripts(parts, 10, 3):
        acted = [i for i, mask in zip(script.response_ids, script.loss_mask, strict=True) if mask]
        assert parts.decode(acted) == "".join(turn + end for turn in script.turns)


def test_the_last_observation_says_to_answer(files: WorldFiles) -> None:
    parts = make_parts(files, with_agent(max_turns=3))
    for script in scripts(parts, 10, 7):
        assert len(script.turns) == 3
        text = parts.decode(script.response_ids)
        assert text.count(parts.protocol.answer_now) == 1
        assert text.rindex(parts.protocol.answer_now) > text.rindex("</tool_call>")


def test_a_script_stays_within_the_token_limits(files: WorldFiles) -> None:
    parts = make_parts(files, configured(rollout={"max_response_tokens": 260, "max_context": 270}))
    found = scripts(parts, 20, 7)
    assert all(len(s.response_ids) <= 260 and len(s) < 270 for s in found)
    assert {len(s.turns) for s in found} <= {2, 3, 4}
    assert all(strings(s.turns[-1]) for s in found)


def test_an_answer_is_cut_to_the_tokens_of_a_turn(files: WorldFiles) -> None:
    parts = make_parts(files, with_agent(max_turn_tokens=16))
    for script in scripts(parts, 5, 4):
        assert len(parts.boundary.encode(script.turns[-1])) < 16
        assert parts.protocol.parse(script.turns[-1]).answer


def test_limits_without_room_for_a_search_are_refused(files: WorldFiles) -> None:
    parts = make_parts(files, with_agent(max_observation_tokens=8))
    with pytest.raises(ConfigError, match="room for a search"):
        scripts(parts, 1, 1)


def test_the_plain_protocol_names_no_sources(files: WorldFiles) -> None:
    config = with_agent(protocol="spader", max_observation_tokens=400)
    config.rollout.max_response_tokens, config.rollout.max_context = 1000, 4000
    parts = make_parts(files, config)
    [script] = scripts(parts, 1, 2)
    assert "[1]" not in "".join(script.turns)
    assert parts.protocol.parse(script.turns[-1]).answer == strings(script.turns[-1])


def test_other_protocols_have_no_scripts(parts: Parts) -> None:
    protocol = make_protocol(AgentConfig(protocol="search_r1"))
    budget = make_budget(AgentConfig(answer_reserve=8), 100, None)
    with pytest.raises(ConfigError, match="SearchR1Protocol"):
        ScriptWriter(protocol, parts.boundary, budget, 8)
