"""`spader-slime evaluate`: ask what is still to be asked, then score and tabulate everything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from spader_slime.errors import ConfigError
from spader_slime.evaluation.asking import Asker, Trajectory, trajectories
from spader_slime.evaluation.log import AnswerLog, lost
from spader_slime.evaluation.results import Results, results_of
from spader_slime.evaluation.settings import Plan
from spader_slime.evaluation.sources import Sources, completed, endpoint_at, plan_of, servers
from spader_slime.scorings import find_scoring


def evaluate(
    sources: Sources,
    out: Path,
    scoring: str = "ours",
    concurrency: int = 64,
    limit: int | None = None,
    corpus: Sequence[Path] = (),
) -> tuple[Results, int]:
    """Ask every question that `out` has no answer for yet, and write the results.

    Args:
        concurrency: trajectories in flight.
        limit: questions of each data set.
        corpus: see `results_of`.

    Returns:
        The results of all that is in `out`, and how many trajectories are still to be asked: lost
        to engine or search service, or given up because nothing else came back.

    Raises:
        ConfigError: a bad option, or `out` was begun with other settings.
        DataError: bad data or corpus.
        EngineError, SearchError: engine or search service can't be reached.
    """
    for name, value in (("--concurrency", concurrency), ("--limit", limit)):
        if value is not None and value < 1:
            raise ConfigError(name, value, "at least 1")
    find_scoring(scoring)
    sources, defaults = completed(sources)
    plan = plan_of(sources, defaults)
    with AnswerLog(out) as log:
        wanted = _unanswered(plan, log, limit)
        if wanted:
            _ask(sources, plan, log, wanted, concurrency)
        else:
            log.settle(plan.identity(log.settings()["policy"]))
        results = results_of(out, scoring, corpus)
        results.write()
        return results, len(_unanswered(plan, log, limit))


def _unanswered(plan: Plan, log: AnswerLog, limit: int | None) -> list[Trajectory]:
    answered = {key for key, line in log.read().items() if not lost(line)}
    return [one for one in trajectories(plan, limit) if one.key not in answered]


def _ask(
    sources: Sources, plan: Plan, log: AnswerLog, wanted: Sequence[Trajectory], concurrency: int
) -> None:
    async def ask(url: str) -> None:
        endpoint = await endpoint_at(url, sources)
        log.settle(plan.identity(endpoint.identity))
        await Asker(plan, endpoint, log, concurrency).run(wanted)

    with servers(sources, plan) as url:
        asyncio.run(ask(url))
