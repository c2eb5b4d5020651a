"""The reinforcement learning loop: rollout, training step, weights to the engine; over and over."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any

from tqdm import tqdm

from spader_slime.local.arguments import host_args, trainer_args
from spader_slime.local.host import RolloutHost
from spader_slime.local.memory import tree_memory_mb
from spader_slime.local.metrics_log import EVALUATION, TRAIN
from spader_slime.local.pool import TrainerPool
from spader_slime.local.run_dir import RunDir
from spader_slime.local.seam import EvalDataset
from spader_slime.local.services import Services
from spader_slime.local.settings import TrainConfig
from spader_slime.local.world.build import WorldFiles
from spader_slime.megatron.checkpoint import latest


def arguments(config: TrainConfig, files: WorldFiles, at: Services) -> Namespace:
    """What slime's command line would say for this run."""
    config.spader.search.urls = [at.search_url]
    rollout = config.rollout
    return host_args(
        prompt_data=str(files.questions("train")),
        rollout_seed=config.run.seed,
        sglang_router_port=at.engine_port,
        rollout_temperature=rollout.temperature,
        rollout_max_response_len=rollout.max_response_tokens,
        rollout_max_context_len=rollout.max_context,
        rollout_batch_size=rollout.prompts,
        n_samples_per_prompt=rollout.samples,
        spader=config.spader,
    )


class Reinforcement:
    """One run's loop. Every part of its state is in a checkpoint or follows from (seed, position).

    Args:
        config: the whole run.
        run: where it is written.
        files: the world.
        host: generates rollouts; its arguments are changed for evaluations and dumps.
        pool: the trainer, freshly made from the cold start.
        at: the servers.
    """

    def __init__(
        self,
        config: TrainConfig,
        run: RunDir,
        files: WorldFiles,
        host: RolloutHost,
        pool: TrainerPool,
        at: Services,
    ) -> None:
        self.config, self.run, self.files = config, run, files
        self.host, self.pool, self.at = host, pool, at
        self.weights = run.root / "weights"

    def train(self) -> None:
        """Run the iterations that are still to be done."""
        first, total = self._resume(), self.config.run.iterations
        with tqdm(total=total, initial=first, desc="reinforcement", disable=None) as bar:
            for iteration in range(first, total):
                shown = self._iterate(iteration)
                bar.set_postfix({k: f"{v:.3f}" for k, v in shown.items()})
                bar.update()

    def _resume(self) -> int:
        folder = self.run.checkpoints
        if latest(folder) is None:
            self.run.metrics.rewind(TRAIN, 0)
            return 0
        found = self.pool.load(folder)
        self.host.load_state_dict(found.state["host"])
        self.run.metrics.rewind(TRAIN, found.iteration)
        self.run.metrics.rewind(EVALUATION, found.iteration + 1)
        self._publish(found.iteration)
        return int(found.iteration)

    def _iterate(self, iteration: int) -> dict[str, float]:
        settings, clock = self.config.run, Clock()
        self._dump_when_due(iteration)
        rollout = self.host.rollout(iteration, self.config.train.dp)
        clock.lap("rollout")
        learned = self.pool.train(rollout.train_data, trainer_args(self.host.args))
        clock.lap("train")
        self._publish(iteration + 1)
        clock.lap("publish")
        values = rollout.metrics | {f"train/{k}": v for k, v in learned.items()}
        values |= clock.laps | {"memory/mb": tree_memory_mb()}
        self.run.metrics.log(TRAIN, iteration, values)
        done = iteration + 1
        if done % self.config.evaluation.every == 0 and done < settings.iterations:
            self.evaluate(done, ("dev",))
        if done % settings.checkpoint_every == 0 or done == settings.iterations:
            self._save(done)
        return {name: values.get(f"spader/{name}", 0.0) for name in ("f1", "recall", "queries")}

    def _dump_when_due(self, iteration: int) -> None:
        every, last = self.config.run.dump_every, self.config.run.iterations - 1
        due = iteration % every == 0 or iteration == last
        self.host.args.save_debug_rollout_data = (
            str(self.run.dumps / "{rollout_id}.pt") if due else None
        )

    def evaluate(self, done: int, splits: tuple[str, ...]) -> dict[str, dict[str, float]]:
        """Held-out metrics after `done` iterations, by split; logged too."""
        args, asked = self.host.args, self.config.evaluation
        args.save_debug_rollout_data = None
        args.eval_datasets = [
            EvalDataset(
                split,
                str(self.files.questions(split)),
                n_samples_per_eval_prompt=asked.samples,
                temperature=asked.temperature,
            )
            for split in splits
        ]
        clock = Clock()
        metrics: dict[str, float] = dict(self.host.evaluate(done).metrics or {})
        clock.lap("evaluation")
        self.run.metrics.log(EVALUATION, done, metrics | clock.laps)
        return {split: _under(f"eval/{split}/spader/", metrics) for split in splits}

    def _publish(self, version: int) -> None:
        self.pool.export_hf(self.weights)
        self.at.publish(self.weights, version)

    def _save(self, done: int) -> None:
        state: dict[str, Any] = {"host": self.host.state_dict()}
        self.pool.save(self.run.checkpoints, done, state, self.config.run.keep_checkpoints)


def _under(prefix: str, metrics: dict[str, float]) -> dict[str, float]:
    return {k.removeprefix(prefix): v for k, v in metrics.items() if k.startswith(prefix)}


class Clock:
    """Seconds between laps, as `time/<name>`."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps[f"time/{name}"] = now - self._last
        self._last = now
