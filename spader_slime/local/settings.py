"""Configuration of a single-machine run: the `spader:` key as on a cluster, and what slime and
Megatron flags would say there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from spader_slime.config import SpaderConfig, build, one_of, ranged, read_yaml
from spader_slime.errors import ConfigError
from spader_slime.local.cold_start import ColdStartSettings
from spader_slime.megatron.settings import LearnerSettings, check_settings


@dataclass
class RunSettings:
    """Where a run lives and how long it goes on."""

    dir: str = "runs/quickstart"
    seed: int = ranged(0, 0)  # model, data order, sampling
    iterations: int = ranged(60, 0)  # rollouts of reinforcement learning; 0: only the cold start
    checkpoint_every: int = ranged(10, 1)  # iterations
    keep_checkpoints: int = ranged(2, 1)
    dump_every: int = ranged(20, 1)  # iterations between rollout dumps
    report: bool = True  # write report.html at the end


@dataclass
class WorldSettings:
    """Which embedded world to build (or to reuse, when `path` names one)."""

    size: str = one_of("small", "small", "full")
    seed: int = ranged(0, 0)
    path: str | None = None


@dataclass
class PolicySettings:
    """Shape of the Qwen3 policy; `hf` starts from a Hugging Face folder instead."""

    layers: int = ranged(2, 1)
    hidden: int = ranged(96, 8)
    ffn: int = ranged(256, 8)
    heads: int = ranged(4, 1)
    kv_heads: int = ranged(2, 1)
    head_dim: int = ranged(24, 2)
    rope_theta: float = ranged(10000.0, 1.0)
    hf: str | None = None


@dataclass
class TeacherSettings:
    """A finished run whose policy teaches this one (`spader.distillation`), served beside it."""

    dir: str | None = None  # the run's folder; None: there is no teacher
    config: str | None = None  # the run's file: it is trained first where the folder lacks a policy


@dataclass
class RolloutSettings:
    """slime's rollout arguments."""

    prompts: int = ranged(8, 1)  # groups per iteration
    samples: int = ranged(12, 1)  # peers per group
    temperature: float = ranged(1.0, 1e-3)
    max_response_tokens: int = ranged(400, 1)
    max_context: int = ranged(512, 8)


@dataclass
class EvaluationSettings:
    """Held-out evaluation; `test` is used before and after training only."""

    every: int = ranged(20, 1)  # iterations between evaluations on the dev split
    samples: int = ranged(4, 1)  # trajectories per question
    temperature: float = ranged(1.0, 0.0)
    test: bool = True


@dataclass
class EngineSettings:
    """Inference engine beside the trainer."""

    threads: int = ranged(1, 1)
    max_running: int = ranged(192, 1)  # concurrent sequences


@dataclass
class TrainConfig:
    """All of a run's YAML file."""

    spader: SpaderConfig = field(default_factory=SpaderConfig)
    run: RunSettings = field(default_factory=RunSettings)
    world: WorldSettings = field(default_factory=WorldSettings)
    policy: PolicySettings = field(default_factory=PolicySettings)
    cold_start: ColdStartSettings = field(default_factory=ColdStartSettings)
    teacher: TeacherSettings = field(default_factory=TeacherSettings)
    rollout: RolloutSettings = field(default_factory=RolloutSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    train: LearnerSettings = field(default_factory=LearnerSettings)


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read a run's YAML file and apply `key.path=value` overrides.

    Paths inside the file are relative to the file; `run.dir` is relative to where you are.
    `${other.key}` is filled in after the overrides.

    Raises:
        ConfigError: unknown key, bad value, unreadable file, or an override without `=`.
    """
    values = _override(read_yaml(path, resolve=False), overrides)
    config = build(TrainConfig, values, "config")
    _anchor(config, Path(path).parent)
    check_settings(config.train)
    _check(config)
    return config


def loss_settings(config: TrainConfig) -> dict[str, Any]:
    """What the trainer takes from the `spader:` key: step options, and the forward KL."""
    loss, teacher = config.spader.loss, config.spader.distillation
    coef = teacher.forward_kl_coef if config.teacher.dir else 0.0
    names = {"ratio": loss.ratio, "aggregate": loss.aggregate}
    return names | {"forward_kl_coef": coef, "tail": teacher.tail}


def _override(values: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    for item in overrides:
        if "=" not in item:
            raise ConfigError("override", item, "key.path=value")
    try:
        merged = OmegaConf.merge(OmegaConf.create(values), OmegaConf.from_dotlist(list(overrides)))
        result: Any = OmegaConf.to_container(merged, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError("override", list(overrides), str(error)) from error
    return {str(k): v for k, v in result.items()}


def _anchor(config: TrainConfig, folder: Path) -> None:
    agent, teacher = config.spader.agent, config.teacher
    agent.prompt_file = _absolute(agent.prompt_file, folder)
    teacher.config = _absolute(teacher.config, folder)


def _absolute(path: str | None, folder: Path) -> str | None:
    return str((folder / path).resolve()) if path and not Path(path).is_absolute() else path


def _check(config: TrainConfig) -> None:
    policy, rollout = config.policy, config.rollout
    if policy.heads % policy.kv_heads:
        raise ConfigError("config.policy.kv_heads", policy.kv_heads, f"a divisor of {policy.heads}")
    if rollout.max_response_tokens >= rollout.max_context:
        raise ConfigError(
            "config.rollout.max_context", rollout.max_context, "more than max_response_tokens"
        )
    if config.spader.distillation.urls:
        urls = config.spader.distillation.urls
        raise ConfigError("config.spader.distillation.urls", urls, "teacher.dir in its place")
    for name, wanted in loss_settings(config).items():
        own, default = getattr(config.train, name), getattr(LearnerSettings, name)
        if own not in (default, wanted):
            part = "loss" if hasattr(config.spader.loss, name) else "distillation"
            raise ConfigError(f"config.train.{name}", own, f"spader.{part}.{name} in its place")
    trajectories = rollout.prompts * rollout.samples
    if trajectories % (config.train.minibatches * config.train.dp):
        raise ConfigError(
            "config.train.minibatches", config.train.minibatches, f"a divisor of {trajectories}"
        )
