"""The run whose policy teaches another: trained first where that was not done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from spader_slime.errors import ConfigError
from spader_slime.local.settings import TrainConfig, load_config


def teacher_policy(config: TrainConfig) -> Path | None:
    """The teacher's Hugging Face folder; None without a teacher."""
    return Path(config.teacher.dir) / "hf" if config.teacher.dir else None


def ensure_teacher(config: TrainConfig, train: Callable[[TrainConfig], None]) -> None:
    """Train the teacher's run, with this run's seed, unless its policy is there.

    Raises:
        ConfigError: it is not there, and `teacher.config` does not say how to make it.
    """
    policy, where = teacher_policy(config), config.teacher.dir
    if policy is None or policy.exists():
        return
    if config.teacher.config is None:
        raise ConfigError("config.teacher.dir", where, "the folder of a finished run")
    print(f"training the teacher in {where}")
    overrides = [f"run.dir={where}", f"run.seed={config.run.seed}"]
    train(load_config(config.teacher.config, overrides))
