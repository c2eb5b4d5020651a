"""One trajectory as a line of `answers.jsonl`."""

from __future__ import annotations

from typing import Any

from spader_slime.agent.protocol import Protocol
from spader_slime.agent.template import ChatBoundary
from spader_slime.algorithms.entities import EntityMatcher
from spader_slime.episode import Episode, Turn
from spader_slime.evaluation.questions import Asked


def line_of(
    asked: Asked, sample: int, episode: Episode, protocol: Protocol, boundary: ChatBoundary
) -> dict[str, Any]:
    """Everything that scoring, tables and a curious reader need, JSON-ready.

    Texts of documents are left out (their titles stay); `seen` holds the numbers of the gold
    answers that they named.
    """
    reference, turns = asked.reference, episode.turns
    matcher = EntityMatcher(reference.gold)
    return {
        "dataset": asked.dataset,
        "number": asked.number,
        "sample": sample,
        "id": asked.id,
        "question": asked.question,
        "gold": reference.gold,
        "source": reference.source,
        "official": list(reference.official),
        "tiers": list(asked.tiers),
        "end": episode.end.value,
        "error": episode.error,
        "answer": episode.answer if episode.answered else None,
        "turns": [_turn(episode, n, protocol, boundary) for n in range(len(turns))],
        "seen": sorted(matcher.find_in_documents(d for turn in turns for d in turn.documents)),
        "prompt_tokens": len(episode.prompt_ids),
        "response_tokens": len(episode.response_ids),
        "weight_versions": sorted({v for turn in turns for v in turn.weight_versions}),
        "engine_s": round(sum(turn.engine_s for turn in turns), 3),
        "search_s": round(sum(turn.search_s for turn in turns), 3),
    }


def _turn(
    episode: Episode, number: int, protocol: Protocol, boundary: ChatBoundary
) -> dict[str, Any]:
    turn: Turn = episode.turns[number]
    start, end = turn.span
    goes_on = number > 0 and protocol.inline and not _closed(episode, number - 1, boundary)
    return {
        "kind": turn.kind.value,
        "text": boundary.turn_text(episode.response_ids[start:end], goes_on),
        "queries": list(turn.queries),
        "calls": turn.calls,
        "titles": [document.title for document in turn.documents],
        "sampled_tokens": end - start,
        "observation_tokens": turn.observation_tokens,
        "cut": turn.cut,
        "search_error": turn.search_error,
    }


def _closed(episode: Episode, number: int, boundary: ChatBoundary) -> bool:
    """Whether an end-of-turn token ended this turn; the next one then is a turn of its own."""
    return boundary.closes(episode.response_ids[episode.turns[number].span[1] - 1])
