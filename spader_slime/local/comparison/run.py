"""Runs a comparison: cold starts, settings on the validation split, the runs that count."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

from spader_slime.local.comparison.plan import Plan, Setting, read_plan
from spader_slime.local.comparison.report import write_results
from spader_slime.local.jobs import Job, run_jobs
from spader_slime.local.settings import load_config
from spader_slime.local.world.build import ensure_world

STAGES = ("cold", "tune", "final", "report")


def run_compare(
    plan_path: str | Path, out_dir: str | Path, parallel: int = 2, stage: str | None = None
) -> None:
    """Do the stages up to `stage` (all by default); finished runs are not repeated.

    Args:
        plan_path: YAML file, see `PlanConfig`.
        out_dir: where runs are kept, and `results/` with table and plots.
        parallel: runs at once, each on one thread.
        stage: one of `STAGES`.

    Raises:
        ConfigError: a faulty plan.
        SpaderError: a run failed; the message names its log.
    """
    plan = read_plan(Path(plan_path), Path(out_dir))
    wanted = STAGES[: STAGES.index(stage) + 1] if stage else STAGES
    _build_world(plan)
    run_jobs(plan.cold_jobs(), parallel)
    if "tune" in wanted:
        run_jobs(_tuning(plan), parallel)
    if "final" in wanted:
        run_jobs(_finals(plan, choose(plan)), parallel)
    if "report" in wanted:
        write_results(plan, choose(plan))


def _build_world(plan: Plan) -> None:
    asked = load_config(plan.config, plan.asked.base).world
    ensure_world(asked.size, plan.world, asked.seed)


def _tuning(plan: Plan) -> list[Job]:
    return [
        job
        for regime, arm in plan.pairs()
        for setting in plan.settings(arm)
        for job in plan.tune_jobs(regime, arm, setting)
    ]


def _finals(plan: Plan, chosen: dict[tuple[str, str], Setting]) -> list[Job]:
    """Seed by seed, so that an interrupted comparison has whole seeds."""
    rows = [plan.final_jobs(*pair, chosen[pair]) for pair in plan.pairs()]
    return [job for column in zip(*rows, strict=True) for job in column]


def choose(plan: Plan) -> dict[tuple[str, str], Setting]:
    """For every (regime, arm) the setting with the best validation score."""
    return {
        (regime, arm): max(
            plan.settings(arm), key=lambda setting: _score(plan, regime, arm, setting)
        )
        for regime, arm in plan.pairs()
    }


def _score(plan: Plan, regime: str, arm: str, setting: Setting) -> float:
    """Mean of recall and F1 on the validation split, over the tuning seeds."""
    return mean(validation_score(job) for job in plan.tune_jobs(regime, arm, setting))


def validation_score(job: Job) -> float:
    """(recall + F1) / 2 on the validation split after the run, in [0, 1]."""
    after = json.loads(job.result.read_text())["after"]["dev"]
    return float(after["recall"] + after["f1"]) / 2
