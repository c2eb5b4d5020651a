"""The cold start as a stage of a run: supervised steps on scripts, resumable."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tqdm import tqdm
from transformers import AutoTokenizer

from spader_slime.agent.protocol import make_protocol
from spader_slime.agent.template import ChatBoundary
from spader_slime.local.cold_start import cold_start_batches, cold_start_learner
from spader_slime.local.initial import write_initial
from spader_slime.local.memory import tree_memory_mb
from spader_slime.local.metrics_log import COLD_START
from spader_slime.local.pool import TrainerPool
from spader_slime.local.run_dir import RunDir
from spader_slime.local.settings import TrainConfig
from spader_slime.local.world.build import WorldFiles
from spader_slime.megatron.checkpoint import latest

LOG_EVERY = 50  # steps


def cold_started(config: TrainConfig, run: RunDir, files: WorldFiles) -> Path:
    """The Hugging Face folder that reinforcement learning starts from, made if it is not there."""
    if config.cold_start.checkpoint:
        return Path(config.cold_start.checkpoint)
    folder = run.root / "cold_start" / "hf"
    if folder.exists():
        return folder
    fresh = _fresh_policy(config, run, files)
    if config.cold_start.steps == 0:
        return fresh
    settings = cold_start_learner(config.cold_start, config.train)
    settings.seed = config.run.seed
    with TrainerPool(settings, fresh) as pool:
        _learn(config, run, files, pool)
        return Path(pool.export_hf(folder))


def _fresh_policy(config: TrainConfig, run: RunDir, files: WorldFiles) -> Path:
    if config.policy.hf:
        return Path(config.policy.hf)
    folder = run.root / "cold_start" / "initial"
    if not (folder / "model.safetensors").exists():
        positions = config.rollout.max_context
        write_initial(folder, config.policy, files.tokenizer, positions, config.run.seed)
    return folder


def _learn(config: TrainConfig, run: RunDir, files: WorldFiles, pool: TrainerPool) -> None:
    asked, checkpoints = config.cold_start, run.root / "cold_start" / "checkpoints"
    first = 0 if latest(checkpoints) is None else pool.load(checkpoints).iteration
    run.metrics.rewind(COLD_START, first)
    recent = _Recent()
    with tqdm(total=asked.steps, initial=first, desc="cold start", disable=None) as bar:
        batches = _batches(config, files, first)
        for step in range(first, asked.steps):
            recent.add(pool.supervised(next(batches)))
            bar.update()
            if (step + 1) % LOG_EVERY == 0 or step + 1 == asked.steps:
                values = recent.take()
                bar.set_postfix(loss=f"{values['train/loss']:.3f}")
                run.metrics.log(COLD_START, step, values | {"memory/mb": tree_memory_mb()})
            if (step + 1) % asked.checkpoint_every == 0:
                pool.save(checkpoints, step + 1, {}, keep=1)


def _batches(config: TrainConfig, files: WorldFiles, first: int) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(files.tokenizer)
    protocol = make_protocol(config.spader.agent)
    boundary = ChatBoundary(tokenizer)
    return cold_start_batches(config, files, tokenizer, protocol, boundary, first)


class _Recent:
    """Means of the steps since the last log line, and the time they took."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._count, self._since = 0, time.monotonic()

    def add(self, metrics: dict[str, float]) -> None:
        self._count += 1
        for key, value in metrics.items():
            self._sums[key] = self._sums.get(key, 0.0) + value

    def take(self) -> dict[str, float]:
        now = time.monotonic()
        means = {f"train/{key}": value / self._count for key, value in self._sums.items()}
        found = means | {"time/cold_start": now - self._since}
        self._sums, self._count, self._since = {}, 0, now
        return found
