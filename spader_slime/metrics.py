"""Numbers about a rollout, computed from its episodes and credits alone.

Every name starts with `spader/`. Averages run over the episodes that are trained on; failed ones
only appear in `spader/failed/*` and in the search counters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from spader_slime.algorithms.credit import Credit
from spader_slime.episode import End, Episode, Turn, TurnKind
from spader_slime.errors import SEARCH_ERROR_KINDS, TooManyFailuresError

Pair = tuple[Episode, Credit]
Metrics = dict[str, float]


def rollout_metrics(groups: Sequence[Sequence[Pair]]) -> Metrics:
    """All metrics of a rollout; `groups` holds the (episode, credit) pairs of every prompt.

    Units: shares in [0, 1], seconds, tokens, counts per trajectory unless the name says otherwise.
    Names with `step_3` hold the third decision step. Groups of one (evaluation) are fine.
    """
    everyone = [pair for group in groups for pair in group]
    trained = [(episode, credit) for episode, credit in everyone if credit.included]
    peers = [[pair for pair in group if pair[1].included] for group in groups]
    parts = (
        _scores(trained),
        _behaviour([episode for episode, _ in trained]),
        _exploration(trained),
        _peers([group for group in peers if group]),
        _advantages(trained),
        _service([turn for episode, _ in everyone for turn in episode.turns]),
        _failures([episode for episode, _ in everyone]),
    )
    merged = {f"spader/{key}": value for part in parts for key, value in part.items()}
    return {key: float(value) for key, value in merged.items()}


def named_metrics(results: Mapping[str, Sequence[Sequence[Pair]]]) -> Metrics:
    """`rollout_metrics` of several sets of groups, each set's name put before its metrics."""
    return {
        f"{name}{key}": value
        for name, groups in results.items()
        for key, value in rollout_metrics(groups).items()
    }


def check_failures(results: Mapping[str, Sequence[Sequence[Pair]]], max_share: float) -> None:
    """Stop the run when too many episodes were lost, all sets of `results` taken together.

    Raises:
        TooManyFailuresError: one line with the share, the limit and the reasons by frequency.
    """
    episodes = [e for groups in results.values() for group in groups for e, _ in group]
    lost = [episode for episode in episodes if episode.failed]
    share = len(lost) / max(len(episodes), 1)
    if share <= max_share:
        return
    reasons = Counter(_reason(episode) for episode in lost).most_common(3)
    raise TooManyFailuresError(
        f"{len(lost)} of {len(episodes)} episodes failed ({share:.0%}, failures.max_share is "
        f"{max_share:.0%}): " + "; ".join(f"{count} x {reason}" for reason, count in reasons)
    )


def _reason(episode: Episode) -> str:
    return " ".join((episode.error or episode.end.value).split())[:200]


def _scores(pairs: Sequence[Pair]) -> Metrics:
    scores = [credit.score for _, credit in pairs]
    names = ("recall", "precision", "f1", "exact_match", "num_predicted", "repeated")
    found = {name: _mean(getattr(score, name) for score in scores) for name in names}
    return found | {"answer_reward": _mean(credit.reward for _, credit in pairs)}


def _behaviour(episodes: Sequence[Episode]) -> Metrics:
    ends = Counter(episode.end for episode in episodes)
    turns = [turn for episode in episodes for turn in episode.turns]
    per = max(len(episodes), 1)
    seen = [turn for turn in turns if turn.observation_tokens]
    return {
        **{f"end/{end.value}": ends[end] / per for end in End if end is not End.RUNNING},
        "invalid_format": _mean(not episode.answered for episode in episodes),
        "turns": len(turns) / per,
        "queries": sum(len(turn.queries) for turn in turns) / per,
        "calls": sum(turn.calls for turn in turns) / per,
        "malformed_calls": sum(turn.malformed for turn in turns) / per,
        "ended_on_search": _mean(_ends_on_search(episode) for episode in episodes),
        "response_tokens": _mean(len(episode.response_ids) for episode in episodes),
        "observation_tokens": sum(turn.observation_tokens for turn in turns) / per,
        "observations_cut": _mean(turn.cut for turn in seen),
    }


def _ends_on_search(episode: Episode) -> bool:
    return bool(episode.turns) and episode.turns[-1].kind is TurnKind.SEARCH


def _exploration(pairs: Sequence[Pair]) -> Metrics:
    steps = [step for _, credit in pairs for step in credit.new_S]
    total = sum(float(np.sum(np.maximum(credit.rewards_S, 0.0))) for _, credit in pairs)
    novelty = sum(float(np.sum(credit.novelty_S)) for _, credit in pairs)
    return {
        "new_entities_per_step": _mean(steps),
        "entities_seen": _mean(len(credit.seen) for _, credit in pairs),
        "seen_share": _mean(len(c.seen) / c.score.num_gold for _, c in pairs),
        "novelty_share": novelty / total if total > 0 else 0.0,
        "cost": _mean(credit.cost for _, credit in pairs),
    }


def _peers(groups: Sequence[Sequence[Pair]]) -> Metrics:
    unions = [set().union(*(credit.seen for _, credit in group)) for group in groups]
    golds = [group[0][1].score.num_gold for group in groups]
    versions = [_versions(episode for episode, _ in group) for group in groups]
    return {
        "union_entities": _mean(len(union) for union in unions),
        "union_share": _mean(len(u) / gold for u, gold in zip(unions, golds, strict=True)),
        "peer_overlap": _mean(c.overlap for group in groups for _, c in group if c.seen),
        "group_size": _mean(len(group) for group in groups),
        "weight_version_spread": _mean(_spread(found) for found in versions),
        "mixed_weight_groups": _mean(len(found) > 1 for found in versions),
    }


def _versions(episodes: Iterable[Episode]) -> set[str]:
    return {str(v) for e in episodes for turn in e.turns for v in turn.weight_versions}


def _spread(versions: set[str]) -> float:
    """Newest minus oldest version where they are numbers, else how many differ from the first."""
    if versions and all(version.isdigit() for version in versions):
        numbers = [int(version) for version in versions]
        return float(max(numbers) - min(numbers))
    return float(max(len(versions) - 1, 0))


def _advantages(pairs: Sequence[Pair]) -> Metrics:
    longest = max((len(credit.advantages_S) for _, credit in pairs), default=0)
    found: Metrics = {}
    for step in range(longest):
        alive = [credit for _, credit in pairs if len(credit.advantages_S) > step]
        values = np.array([credit.advantages_S[step] for credit in alive])
        found[f"advantage_mean/step_{step + 1}"] = float(values.mean())
        found[f"advantage_std/step_{step + 1}"] = float(values.std())
        found[f"live_peers/step_{step + 1}"] = _mean(credit.live_S[step] for credit in alive)
    return found


def _service(turns: Sequence[Turn]) -> Metrics:
    """Search and engine as the trajectories met them, failed ones included; totals, not means."""
    waits = [turn.search_s for turn in turns if turn.queries]
    errors = Counter(turn.search_error for turn in turns)
    p50, p99 = np.percentile(waits, (50, 99)) if waits else (0.0, 0.0)
    return {
        "search_latency_p50": float(p50),
        "search_latency_p99": float(p99),
        "engine_s_per_turn": _mean(turn.engine_s for turn in turns),
        "searches_total": len(waits),
        **{f"search_errors/{kind}": errors[kind] for kind in SEARCH_ERROR_KINDS},
    }


def _failures(episodes: Sequence[Episode]) -> Metrics:
    ends = Counter(episode.end for episode in episodes)
    return {
        "failed/share": _mean(episode.failed for episode in episodes),
        "failed/infrastructure": ends[End.INFRASTRUCTURE],
        "failed/aborted": ends[End.ABORTED],
        "episodes": len(episodes),
    }


def _mean(values: Iterable[float]) -> float:
    found = [float(value) for value in values]
    return sum(found) / len(found) if found else 0.0
