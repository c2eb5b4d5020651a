"""How good the answers are, and what the agent did on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from spader_slime.episode import End, Episode, TurnKind
from spader_slime.metrics.common import Graded, Metrics, mean

_SCORES = ("recall", "precision", "f1", "exact_match", "num_predicted", "repeated")


def scores(graded: Sequence[Graded]) -> Metrics:
    """Answers against gold, and rewards per trajectory."""
    credits = [one.credit for one in graded]
    return {
        **{name: mean(getattr(credit.score, name) for credit in credits) for name in _SCORES},
        **_tiers(graded),
        "answer_reward": mean(credit.reward for credit in credits),
        "reward": mean(sum(credit.rewards_S) for credit in credits),
    }


def _tiers(graded: Sequence[Graded]) -> Metrics:
    names = sorted({tier for one in graded for tier in one.tier_recall})
    return {
        f"recall_{name}": mean(g.tier_recall[name] for g in graded if name in g.tier_recall)
        for name in names
    }


def behaviour(episodes: Sequence[Episode]) -> Metrics:
    """Ends, turns, calls and tokens per trajectory."""
    turns = [turn for episode in episodes for turn in episode.turns]
    per = max(len(episodes), 1)
    return {
        **_ends(episodes),
        "turns": len(turns) / per,
        "searches": sum(bool(turn.queries) for turn in turns) / per,
        "queries": sum(len(turn.queries) for turn in turns) / per,
        "calls": sum(turn.calls for turn in turns) / per,
        "malformed_calls": sum(turn.malformed for turn in turns) / per,
        "response_tokens": mean(len(episode.response_ids) for episode in episodes),
        "sampled_tokens": sum(turn.span[1] - turn.span[0] for turn in turns) / per,
        "observation_tokens": sum(turn.observation_tokens for turn in turns) / per,
        "observations_cut": mean(turn.cut for turn in turns if turn.observation_tokens),
    }


def _ends(episodes: Sequence[Episode]) -> Metrics:
    ends, per = Counter(episode.end for episode in episodes), max(len(episodes), 1)
    valid = mean(episode.answered for episode in episodes)
    return {
        **{f"end/{end.value}": ends[end] / per for end in End if end is not End.RUNNING},
        "valid": valid,
        "invalid_format": 1.0 - valid if episodes else 0.0,
        "ended_on_search": mean(map(_ends_on_search, episodes)),
    }


def _ends_on_search(episode: Episode) -> bool:
    return bool(episode.turns) and episode.turns[-1].kind is TurnKind.SEARCH
