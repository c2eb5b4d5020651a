"""`spader-slime train`: world, cold start, reinforcement learning, evaluation, export, report.

Each stage leaves a whole result behind and is skipped when that is there, so that the same command
goes on after an interruption.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from spader_slime.local.baselines import plain_query
from spader_slime.local.cold_stage import cold_started
from spader_slime.local.host import RolloutHost
from spader_slime.local.metrics_log import TRAIN
from spader_slime.local.pool import TrainerPool
from spader_slime.local.reinforce import Reinforcement, arguments
from spader_slime.local.run_dir import RunDir
from spader_slime.local.services import services
from spader_slime.local.settings import TrainConfig, loss_settings
from spader_slime.local.teacher import ensure_teacher
from spader_slime.local.world.build import WorldFiles, ensure_world, open_world

SHOWN = ("f1", "recall", "precision", "queries", "invalid_format", "seen_share", "union_share")


def run_training(config: TrainConfig) -> None:
    """Do whatever of the run is not done yet, and write `result.json` and the report at its end.

    Raises:
        SpaderError: any fault of configuration, servers or data; one line says which.
    """
    ensure_teacher(config, run_training)
    with RunDir(Path(config.run.dir)) as run:
        run.write_config(config)
        files = prepare_world(config, run)
        start = cold_started(config, run, files)
        if not run.result.exists():
            run.write_json(run.result, _reinforce(config, run, files, start))
        if config.run.report:
            from spader_slime.report import write_report

            write_report(run.root)
        _tell(run)


def prepare_world(config: TrainConfig, run: RunDir) -> WorldFiles:
    """The world of the run: the one at `world.path`, or its own, built when it is not there."""
    if config.world.path:
        return open_world(Path(config.world.path))
    return ensure_world(config.world.size, run.world, config.world.seed)


def _reinforce(config: TrainConfig, run: RunDir, files: WorldFiles, start: Path) -> dict[str, Any]:
    splits = ("dev", "test") if config.evaluation.test else ("dev",)
    seed, temperature = config.run.seed, config.rollout.temperature
    settings = replace(config.train, seed=seed, temperature=temperature)
    settings = replace(settings, **loss_settings(config))
    tokenizer = AutoTokenizer.from_pretrained(start)
    with services(config, files, start) as at, TrainerPool(settings, start) as pool:
        with RolloutHost(arguments(config, files, at), tokenizer) as host:
            loop = Reinforcement(config, run, files, host, pool, at)
            before = _once(run, "before", lambda: loop.evaluate(0, splits))
            loop.train()
            after = _once(run, "after", lambda: loop.evaluate(config.run.iterations, splits))
        _export(pool, run)
    baselines = {split: plain_query(files, split, config.spader.search.top_k) for split in splits}
    measured = _summary(run)
    return {"before": before, "after": after, "baselines": {"plain_query": baselines}, **measured}


def _once(run: RunDir, name: str, evaluate: Any) -> dict[str, dict[str, float]]:
    path = run.root / "evaluations" / f"{name}.json"
    if not path.exists():
        run.write_json(path, evaluate())
    result: dict[str, dict[str, float]] = json.loads(path.read_text())
    return result


def _export(pool: TrainerPool, run: RunDir) -> None:
    if not run.hf.exists():
        pool.export_hf(run.hf)


def _summary(run: RunDir) -> dict[str, Any]:
    """Seconds by activity, largest log-prob gap and peak memory, from the run's own metrics."""
    lines = run.metrics.read()
    seconds: dict[str, float] = {}
    for line in lines:
        for key, value in line.items():
            group, _, name = key.partition("/")
            if group == "time":
                seconds[name] = seconds.get(name, 0.0) + value
    trained = [line for line in lines if line["phase"] == TRAIN]
    return {
        "seconds": seconds,
        "gap_max": max((line.get("train/logprob_gap", 0.0) for line in trained), default=0.0),
        "peak_memory_mb": max((line.get("memory/mb", 0.0) for line in lines), default=0.0),
    }


def _tell(run: RunDir) -> None:
    """The table of before and after, and where everything lies."""
    result = json.loads(run.result.read_text())
    for split, before in result["before"].items():
        rows = {
            "plain query": result["baselines"]["plain_query"][split],
            "cold start": before,
            "trained": result["after"][split],
        }
        print(before_after(split, rows))
    print(f"checkpoint: {run.hf}")
    if run.report.exists():
        print(f"report:     {run.report}")


def before_after(split: str, rows: dict[str, dict[str, float]]) -> str:
    """A plain-text table of `SHOWN` metrics, one line for each searcher."""
    head = f"{split:<12}" + "".join(f"{name.replace('_', ' '):>15}" for name in SHOWN)
    lines = [
        f"{name:<12}" + "".join(_number(values.get(key)) for key in SHOWN)
        for name, values in rows.items()
    ]
    return "\n".join([head, *lines, ""])


def _number(value: float | None) -> str:
    return f"{'-' if value is None else format(value, '.3f'):>15}"
