"""What the searches showed, to one trajectory and to all peers; rewards and advantages by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from spader_slime.algorithms.credit import Credit
from spader_slime.episode import Episode
from spader_slime.metrics.common import Graded, Metrics, mean


def exploration(credits: Sequence[Credit]) -> Metrics:
    """Gold entities shown, per trajectory and per decision step."""
    total = sum(float(np.sum(np.maximum(credit.rewards_S, 0.0))) for credit in credits)
    novelty = sum(sum(credit.novelty_S) for credit in credits)
    return {
        "new_entities_per_step": mean(step for credit in credits for step in credit.new_S),
        "entities_seen": mean(len(credit.seen) for credit in credits),
        "seen_share": mean(len(credit.seen) / credit.score.num_gold for credit in credits),
        "novelty_share": novelty / total if total > 0 else 0.0,
        "cost": mean(credit.cost for credit in credits),
    }


def peers(groups: Sequence[Sequence[Graded]]) -> Metrics:
    """What the trajectories of a question showed together, and how alike they are."""
    shown = [Counter(entity for one in group for entity in one.credit.seen) for group in groups]
    golds = [group[0].credit.score.num_gold for group in groups]
    versions = [_versions(one.episode for one in group) for group in groups]
    return {
        "union_entities": mean(map(len, shown)),
        "union_share": mean(len(c) / gold for c, gold in zip(shown, golds, strict=True)),
        "peer_overlap": mean(
            mean(counts[entity] > 1 for entity in one.credit.seen)
            for group, counts in zip(groups, shown, strict=True)
            for one in group
            if one.credit.seen
        ),
        "group_size": mean(map(len, groups)),
        "weight_version_spread": mean(map(_spread, versions)),
        "mixed_weight_groups": mean(len(found) > 1 for found in versions),
    }


def _versions(episodes: Iterable[Episode]) -> set[str]:
    return {str(v) for e in episodes for turn in e.turns for v in turn.weight_versions}


def _spread(versions: set[str]) -> float:
    """Newest minus oldest version where they are numbers, else how many differ from the first."""
    if versions and all(version.isdigit() for version in versions):
        numbers = [int(version) for version in versions]
        return float(max(numbers) - min(numbers))
    return float(max(len(versions) - 1, 0))


def advantages(credits: Sequence[Credit]) -> Metrics:
    """Mean and spread of the advantages and how many peers are left, by decision step.

    Empty where no trajectory had a peer (evaluation): there are no advantages then.
    """
    if not any(live > 1 for credit in credits for live in credit.live_S):
        return {}
    found: Metrics = {}
    for step in range(max(len(credit.advantages_S) for credit in credits)):
        alive = [credit for credit in credits if len(credit.advantages_S) > step]
        values = np.array([credit.advantages_S[step] for credit in alive])
        found[f"advantage_mean/step_{step + 1}"] = float(values.mean())
        found[f"advantage_std/step_{step + 1}"] = float(values.std())
        found[f"live_peers/step_{step + 1}"] = mean(credit.live_S[step] for credit in alive)
    return found
