"""What is compared: a plan file, and the jobs it stands for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from spader_slime.config import build, ranged, read_yaml
from spader_slime.errors import ConfigError
from spader_slime.local.jobs import Job

Setting = tuple[str, ...]  # overrides, `key=value`


@dataclass
class Arm:
    """A method: overrides of the common configuration, and grid keys that can't change it."""

    overrides: list[str] = field(default_factory=list)
    ignores: list[str] = field(default_factory=list)


@dataclass
class PlanConfig:
    """A comparison as its YAML file states it; overrides are `key=value` of the run's file."""

    config: str = "config.yaml"  # the runs' file, relative to the plan
    base: list[str] = field(default_factory=list)  # overrides of every run
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2, 3, 4])
    tune_seeds: list[int] = field(default_factory=lambda: [100])  # for choosing settings
    regimes: dict[str, list[str]] = field(default_factory=dict)  # overrides of the cold start
    arms: dict[str, Arm] = field(default_factory=dict)  # the first is compared with the others
    grid: dict[str, list[str]] = field(default_factory=dict)  # key -> values, all combinations
    tune_iterations: int = ranged(30, 1)
    iterations: int = ranged(60, 1)


@dataclass(frozen=True)
class Plan:
    """A checked plan: which jobs there are and where each one writes."""

    asked: PlanConfig
    config: Path
    out: Path

    def settings(self, arm: str) -> list[Setting]:
        """The grid's combinations that differ for this arm."""
        keys = [key for key in self.asked.grid if key not in self.asked.arms[arm].ignores]
        values = product(*(self.asked.grid[key] for key in keys))
        return [tuple(f"{k}={v}" for k, v in zip(keys, row, strict=True)) for row in values]

    def cold_jobs(self) -> list[Job]:
        """A cold start for every regime and seed, tuning seeds included."""
        seeds = [*self.asked.seeds, *self.asked.tune_seeds]
        return [self._cold(regime, seed) for regime in self.asked.regimes for seed in seeds]

    def tune_jobs(self, regime: str, arm: str, setting: Setting) -> list[Job]:
        """The runs that say how good a setting is, on the validation split only."""
        label = "_".join(map(short, setting)) or "as_is"
        budget = (f"run.iterations={self.asked.tune_iterations}", "evaluation.test=false")
        return [
            self._learn(f"tune/{regime}/{arm}/{label}", regime, arm, seed, (*setting, *budget))
            for seed in self.asked.tune_seeds
        ]

    def final_jobs(self, regime: str, arm: str, setting: Setting) -> list[Job]:
        """The runs that count, one per seed."""
        budget = f"run.iterations={self.asked.iterations}"
        return [
            self._learn(f"final/{regime}/{arm}", regime, arm, seed, (*setting, budget))
            for seed in self.asked.seeds
        ]

    def pairs(self) -> Iterator[tuple[str, str]]:
        """(regime, arm) of every cell of the table."""
        return product(self.asked.regimes, self.asked.arms)

    def _cold(self, regime: str, seed: int) -> Job:
        own = (*self.asked.regimes[regime], "run.iterations=0", "evaluation.test=false")
        return self._job(f"cold/{regime}", seed, own)

    def _learn(self, name: str, regime: str, arm: str, seed: int, setting: Setting) -> Job:
        start = f"cold_start.checkpoint={self._cold(regime, seed).out / 'hf'}"
        return self._job(name, seed, (*self.asked.arms[arm].overrides, *setting, start))

    def _job(self, name: str, seed: int, overrides: Setting) -> Job:
        world = f"world.path={self.world}"
        common = (*self.asked.base, world, f"run.seed={seed}", "run.report=false")
        out = self.out / name / f"seed_{seed}"
        return Job(f"{name}/seed_{seed}", self.config, (*common, *overrides), out)

    @property
    def world(self) -> Path:
        """The one world of all runs."""
        return self.out / "world"


def short(override: str) -> str:
    """`train.lr=1.0e-3` -> `lr=1.0e-3`."""
    key, _, value = override.partition("=")
    return f"{key.rpartition('.')[2]}={value}"


def read_plan(path: Path, out: Path) -> Plan:
    """Read and check a plan file.

    Raises:
        ConfigError: unknown key, wrong type, nothing to compare, or a seed used twice.
    """
    values: dict[str, Any] = read_yaml(path)
    arms = values.get("arms") or {}
    asked = build(PlanConfig, {**values, "arms": {}}, "plan")
    asked.arms = {name: build(Arm, arm or {}, f"plan.arms.{name}") for name, arm in arms.items()}
    seeds = [*asked.seeds, *asked.tune_seeds]
    if len(asked.arms) < 2 or not asked.regimes or not asked.seeds:
        raise ConfigError("plan", str(path), "two arms, a regime and a seed at least")
    if len(set(seeds)) != len(seeds):
        raise ConfigError("plan.tune_seeds", asked.tune_seeds, "seeds that are not in plan.seeds")
    return Plan(asked, (path.parent / asked.config).resolve(), out.resolve())
