"""Search service and engine as the trajectories met them, and the limit on lost episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from spader_slime.episode import End, Episode, Turn
from spader_slime.errors import SEARCH_ERROR_KINDS, TooManyFailuresError
from spader_slime.metrics.common import Graded, Metrics, mean

CAUSES = ("aborted", "engine", *(f"search_{kind}" for kind in SEARCH_ERROR_KINDS))


def service(turns: Sequence[Turn]) -> Metrics:
    """Waiting times and search errors, failed episodes included; totals, not means."""
    waits = [turn.search_s for turn in turns if turn.queries]
    errors = Counter(turn.search_error for turn in turns)
    p50, p99 = np.percentile(waits, (50, 99)) if waits else (0.0, 0.0)
    return {
        "search_latency_p50": float(p50),
        "search_latency_p99": float(p99),
        "engine_s_per_turn": mean(turn.engine_s for turn in turns),
        "searches_total": len(waits),
        **{f"search_errors/{kind}": errors[kind] for kind in SEARCH_ERROR_KINDS},
    }


def failures(episodes: Sequence[Episode]) -> Metrics:
    """Lost episodes, all together and by cause."""
    causes = Counter(_cause(episode) for episode in episodes if episode.failed)
    lost = sum(causes.values())
    return {
        "episodes": len(episodes),
        "failed/share": lost / max(len(episodes), 1),
        "failed/infrastructure": lost - causes["aborted"],
        **{f"failed/{cause}": causes[cause] for cause in CAUSES},
    }


def _cause(episode: Episode) -> str:
    if episode.end is End.ABORTED:
        return "aborted"
    last = episode.turns[-1:]
    unanswered = [t.search_error for t in last if not t.observation_tokens]  # else it was shown
    return f"search_{unanswered[0]}" if any(unanswered) else "engine"


def check_failures(results: Mapping[str, Sequence[Sequence[Graded]]], max_share: float) -> None:
    """Stop the run when too many episodes were lost, all sets of `results` taken together.

    Raises:
        TooManyFailuresError: one line with the share, the limit and the reasons by frequency.
    """
    graded = [one for groups in results.values() for group in groups for one in group]
    lost = [one.episode for one in graded if one.episode.failed]
    share = len(lost) / max(len(graded), 1)
    if share <= max_share:
        return
    reasons = Counter(map(_reason, lost)).most_common(3)
    raise TooManyFailuresError(
        f"{len(lost)} of {len(graded)} episodes failed ({share:.0%}, failures.max_share is "
        f"{max_share:.0%}): " + "; ".join(f"{count} x {reason}" for reason, count in reasons)
    )


def _reason(episode: Episode) -> str:
    return " ".join((episode.error or episode.end.value).split())[:200]
