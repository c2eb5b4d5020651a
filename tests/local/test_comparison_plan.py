"""The jobs that a comparison's plan stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from spader_slime.errors import ConfigError
from spader_slime.local.comparison.plan import Plan, read_plan

PLAN = """
config: run.yaml
base: [rollout.prompts=4]
seeds: [0, 1]
tune_seeds: [9]
regimes: {good: [], weak: [cold_start.steps=10]}
arms:
  spader: {}
  grpo: {overrides: [spader.estimator=grpo], ignores: [spader.gamma]}
grid: {train.lr: ["1.0e-3", "2.0e-3"], spader.gamma: ["0.9", "1.0"]}
tune_iterations: 3
iterations: 5
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "plan.yaml").write_text(PLAN)
    return read_plan(tmp_path / "plan.yaml", tmp_path / "out")


def test_grid_is_shared_and_inert_keys_are_not_multiplied(plan: Plan) -> None:
    assert len(plan.settings("spader")) == 4
    assert plan.settings("grpo") == [("train.lr=1.0e-3",), ("train.lr=2.0e-3",)]


def test_cold_starts_are_shared_by_the_arms(plan: Plan) -> None:
    colds = {job.out for job in plan.cold_jobs()}
    assert len(colds) == 2 * 3  # regimes x (seeds + tuning seeds)
    for pair in plan.pairs():
        setting = plan.settings(pair[1])[0]
        for job in [*plan.final_jobs(*pair, setting), *plan.tune_jobs(*pair, setting)]:
            start = next(o for o in job.overrides if o.startswith("cold_start.checkpoint="))
            assert Path(start.split("=")[1]).parent in colds


def test_budgets_are_equal_and_tuning_never_sees_the_test_split(plan: Plan) -> None:
    for pair in plan.pairs():
        for setting in plan.settings(pair[1]):
            assert all(
                "evaluation.test=false" in job.overrides and "run.iterations=3" in job.overrides
                for job in plan.tune_jobs(*pair, setting)
            )
            final = plan.final_jobs(*pair, setting)
            assert all("run.iterations=5" in job.overrides for job in final)
            assert not any("evaluation.test=false" in job.overrides for job in final)


def test_every_job_writes_to_a_folder_of_its_own(plan: Plan) -> None:
    jobs = plan.cold_jobs()
    for pair in plan.pairs():
        jobs += [j for s in plan.settings(pair[1]) for j in plan.tune_jobs(*pair, s)]
        jobs += plan.final_jobs(*pair, plan.settings(pair[1])[0])
    assert len({job.out for job in jobs}) == len(jobs)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("seeds: [0, 1]", "seeds: [0, 9]", "tune_seeds"),
        ("iterations: 5", "iteration: 5", "iteration"),
        ("  spader: {}\n", "", "two arms"),
        ("ignores:", "ignored:", "ignored"),
    ],
)
def test_faulty_plans_are_refused(tmp_path: Path, old: str, new: str, named: str) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN.replace(old, new, 1))
    with pytest.raises(ConfigError, match=named):
        read_plan(tmp_path / "plan.yaml", tmp_path / "out")
