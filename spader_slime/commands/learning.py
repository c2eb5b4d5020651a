"""`train`, `compare`, `world`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from spader_slime.commands.base import command


def add(commands: Any) -> None:
    """Declare the commands of this group."""
    train = command(commands, "train", _train, "train an agent; goes on where it was interrupted")
    train.add_argument("--config", type=Path, required=True, metavar="FILE")
    train.add_argument("overrides", nargs="*", metavar="key=value", help="replaces a key of FILE")

    compare = command(commands, "compare", _compare, "estimators and rewards side by side")
    compare.add_argument("plan", type=Path, metavar="PLAN", help="YAML file that says what")
    compare.add_argument("--out", type=Path, default=Path("runs/compare"), metavar="DIR")
    compare.add_argument("--parallel", type=int, default=2, metavar="N", help="runs at once")
    stages = ("cold", "tune", "final", "report")
    compare.add_argument("--stage", choices=stages, help="stop after this stage")

    world = command(commands, "world", _world, "build a world of questions and passages")
    world.add_argument("out", type=Path, metavar="DIR")
    world.add_argument("--size", choices=("small", "full"), default="small")
    world.add_argument("--seed", type=int, default=0)


def _train(options: argparse.Namespace) -> None:
    from spader_slime.local.settings import load_config

    config = load_config(options.config, options.overrides)
    from spader_slime.local.train import run_training  # a faulty file is told before torch loads

    run_training(config)


def _compare(options: argparse.Namespace) -> None:
    from spader_slime.local.comparison.run import run_compare

    run_compare(options.plan, options.out, options.parallel, options.stage)


def _world(options: argparse.Namespace) -> None:
    from spader_slime.local.world.build import build_world

    print(build_world(options.size, options.out, options.seed).root)
