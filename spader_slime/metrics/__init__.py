"""Numbers about a rollout, computed from its episodes and credits alone (docs/metrics.md).

Every name starts with `spader/`. Averages run over the episodes that are trained on; failed ones
only appear in `spader/failed/*` and in the search counters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spader_slime.metrics.behaviour import behaviour, scores
from spader_slime.metrics.common import Graded, Metrics
from spader_slime.metrics.distillation import check_lessons, distillation
from spader_slime.metrics.exploration import advantages, exploration, peers
from spader_slime.metrics.faults import check_failures, failures, service
from spader_slime.metrics.results import evaluated, graded, trained

__all__ = [
    "Graded",
    "Metrics",
    "check_failures",
    "check_lessons",
    "evaluated",
    "graded",
    "named_metrics",
    "rollout_metrics",
    "trained",
]

Groups = Sequence[Sequence[Graded]]


def rollout_metrics(groups: Groups) -> Metrics:
    """All metrics of a rollout; `groups` holds the episodes of every question.

    Units: shares in [0, 1], seconds, tokens, counts per trajectory unless the name says otherwise.
    Names with `step_3` hold the third decision step. Groups of one are fine.
    """
    everyone = [one for group in groups for one in group]
    trained = [one for one in everyone if one.credit.included]
    included = [[one for one in group if one.credit.included] for group in groups]
    parts = (
        scores(trained),
        behaviour([one.episode for one in trained]),
        exploration([one.credit for one in trained]),
        peers([group for group in included if group]),
        advantages([one.credit for one in trained]),
        service([turn for one in everyone for turn in one.episode.turns]),
        failures([one.episode for one in everyone]),
        distillation(trained),
    )
    merged = {f"spader/{key}": value for part in parts for key, value in part.items()}
    return {key: float(value) for key, value in merged.items()}


def named_metrics(results: Mapping[str, Groups]) -> Metrics:
    """`rollout_metrics` of several sets of groups, each set's name put before its metrics."""
    return {
        f"{name}{key}": value
        for name, groups in results.items()
        for key, value in rollout_metrics(groups).items()
    }
