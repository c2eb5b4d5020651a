"""Every line of the case files that concern the agent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.loops import Stage
from support.replies import Reply, ReplyEngine, number_tokenizer
from support.search import ScriptedSearch

from spader_slime.agent.policy import Generation
from spader_slime.agent.protocol import Action, Protocol, make_protocol, parse_tool_call
from spader_slime.agent.protocols.prompts import SPADER_CITED
from spader_slime.agent.search import SearchClient
from spader_slime.agent.transcript import Transcript, mask_off_policy
from spader_slime.config import AgentConfig, SearchConfig
from spader_slime.episode import Document, Episode, TurnKind
from spader_slime.errors import ProtocolError

CASES = Path(__file__).parents[1] / "cases"


def cases(name: str) -> list[Any]:
    text = (CASES / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


ALIGNMENT = pytest.mark.parametrize("case", cases("alignment"), ids=lambda c: c.get("why", "plain"))
TOOL_CALLS = pytest.mark.parametrize("case", cases("tool_calls"), ids=lambda c: c["text"])


def check_alignment(episode: Episode, case: dict[str, Any]) -> None:
    assert len(episode.response_ids) == case["response_length"]
    assert episode.response_ids == [token for turn in case["turns"] for token in turn["tokens"]]
    assert episode.loss_mask == case["loss_mask"]
    assert episode.log_probs == case["rollout_log_probs"]
    assert episode.step_spans == [tuple(span) for span in case["step_spans"]]


@ALIGNMENT
def test_alignment_of_the_transcript(case: dict[str, Any]) -> None:
    transcript = Transcript(Episode())
    for turn in case["turns"]:
        if turn["role"] == "observation":
            transcript.observed(turn["tokens"])
            continue
        if transcript.episode.open_turn and case.get("mask_offpolicy"):
            mask_off_policy(transcript.episode)
        finish = turn.get("finish", "stop")
        transcript.sampled(Generation(turn["tokens"], turn["logprobs"], finish))
    check_alignment(transcript.episode, case)


class Recited(Protocol):
    """Searches until the observations of a case are used up, then answers, if it gets that far."""

    no_action = "?"

    def __init__(self, observations: Sequence[str], last: TurnKind) -> None:
        super().__init__(SPADER_CITED)
        self._left, self._last = list(observations), last

    def parse(self, text: str) -> Action:
        if self._left:
            return Action(TurnKind.SEARCH, ("query",))
        return Action(self._last, answer=[] if self._last is TurnKind.ANSWER else None)

    def observation(self, *given: Any) -> str:
        return self._left.pop(0)

    def error_observation(self, message: str | None, notes: Sequence[str] = ()) -> str:
        return ""


@ALIGNMENT
async def test_alignment_of_the_loop(case: dict[str, Any], search: ScriptedSearch) -> None:
    """The same through real calls; an aborted trajectory is taken up again."""
    assistant = [turn for turn in case["turns"] if turn["role"] == "assistant"]
    finishes = [turn.get("finish", "stop") for turn in assistant]
    replies = [
        Reply(tuple(turn["tokens"]), tuple(turn["logprobs"]), finish)
        for turn, finish in zip(assistant, finishes, strict=True)
    ]
    shown = [" ".join(map(str, t["tokens"])) for t in case["turns"] if t["role"] == "observation"]
    protocol = Recited(shown, TurnKind.NONE if finishes[-1] == "length" else TurnKind.ANSWER)
    tokenizer = number_tokenizer()
    with ReplyEngine(replies) as engine:
        async with Stage(tokenizer, engine.url, search.endpoint, protocol=protocol) as stage:
            episode = await stage.run()
            if "abort" in finishes:
                assert episode.end == "aborted" and episode.open_turn
                if case.get("mask_offpolicy"):
                    mask_off_policy(episode)
                episode = await stage.run(Episode.from_dict(episode.to_dict()))
    check_alignment(episode, case)
    assert episode.end == case.get("end", "answered")
    assert not engine.replies and not episode.open_turn


@TOOL_CALLS
def test_tool_calls(case: dict[str, Any]) -> None:
    if case.get("error"):
        with pytest.raises(ProtocolError) as caught:
            parse_tool_call(case["text"])
        assert "<tool_call>[" in str(caught.value)  # shows the model how
    else:
        assert parse_tool_call(case["text"]) == case["queries"]


@TOOL_CALLS
def test_tool_calls_of_a_turn(case: dict[str, Any]) -> None:
    """The protocol reads the same; what can't be read counts as one call and is explained."""
    action = make_protocol(AgentConfig()).parse(case["text"])
    if case.get("error"):
        assert (action.kind, action.malformed, action.calls) == (TurnKind.MALFORMED, 1, 1)
        assert action.message
    else:
        assert (action.kind, action.malformed) == (TurnKind.SEARCH, 0)
        assert list(action.queries) == case["queries"] and action.calls == len(case["queries"])


@pytest.mark.parametrize("case", cases("answers"), ids=lambda c: c["text"])
def test_answers_of_a_turn(case: dict[str, Any]) -> None:
    action = make_protocol(AgentConfig()).parse(case["text"])
    assert action.answer == case["want"]
    assert action.answer is None or action.kind is TurnKind.ANSWER


@pytest.fixture(scope="module")
def search() -> Iterator[ScriptedSearch]:
    with ScriptedSearch(lambda query: [(query, f"About {query}.")]) as running:
        yield running


async def test_queries_reach_the_service_as_they_are(search: ScriptedSearch) -> None:
    """Blank, long and odd ones too (what the service does with them is its own tests' matter)."""
    queries = [case["query"] for case in cases("queries")]
    client = SearchClient(SearchConfig([search.endpoint]))
    found = await client.search(queries)
    await client.close()
    assert search.requests[-1]["queries"] == queries
    assert found.documents == [[Document(query, f"About {query}.")] for query in queries]
