"""The embedded rollout host: what slime's rollout manager does, on one machine without Ray.

It calls the functions of `spader_slime.hooks` by their dotted names with slime's arguments.
"""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace
from collections.abc import Coroutine
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import torch

from spader_slime.local.data_source import DataSource
from spader_slime.local.evaluate import evaluate
from spader_slime.local.rollout import Collector
from spader_slime.local.sample import Sample
from spader_slime.local.seam import RolloutFnEvalOutput, RolloutFnTrainOutput, load_function
from spader_slime.local.state import HostState
from spader_slime.local.train_data import convert_samples_to_train_data, split_by_dp
from spader_slime.runtime import close_clients

T = TypeVar("T")


@dataclass(frozen=True)
class Rollout:
    """One rollout, ready for the trainers.

    Attributes:
        samples: the trained samples, prompt by prompt.
        train_data: one mapping per data-parallel rank, under slime's keys.
        metrics: numbers to log, `spader/...` and `rollout/...`.
        seconds: wall-clock time of the rollout.
    """

    samples: list[Sample]
    train_data: list[dict[str, Any]]
    metrics: dict[str, float]
    seconds: float


class RolloutHost:
    """Generates rollouts and evaluations; owns the data source and one event loop.

    Args:
        args: slime's argument names, see `local.arguments.host_args`. Gets `spader_state`.
        tokenizer: the policy's Hugging Face tokenizer.
        source: where prompts come from; by default `args.prompt_data`.
    """

    def __init__(self, args: Namespace, tokenizer: Any, source: DataSource | None = None) -> None:
        self.args = args
        self.loop = asyncio.new_event_loop()
        self.source = DataSource(args) if source is None else source
        args.spader_state = HostState(args, tokenizer, self._generate_rollout)
        self._rollout = load_function(args.rollout_function_path)

    def rollout(self, rollout_id: int, dp_size: int = 1) -> Rollout:
        """Run the rollout of training step `rollout_id`, and dump it when the arguments say so.

        Raises:
            TooManyFailuresError: more episodes were lost than `failures.max_share` allows.
        """
        started = time.monotonic()
        output = self._rollout(self.args, rollout_id, self.source, evaluation=False)
        samples = list(chain.from_iterable(output.samples))
        data = split_by_dp(convert_samples_to_train_data(self.args, samples), dp_size)
        self._dump(str(rollout_id), rollout_id, samples)
        return Rollout(samples, data, dict(output.metrics or {}), time.monotonic() - started)

    def evaluate(self, rollout_id: int) -> RolloutFnEvalOutput:
        """Evaluate the policy on `args.eval_datasets`; `metrics` holds `eval/<dataset>/...`."""
        output: RolloutFnEvalOutput = self._rollout(
            self.args, rollout_id, self.source, evaluation=True
        )
        samples = [sample for result in output.data.values() for sample in result["samples"]]
        self._dump(f"eval_{rollout_id}", rollout_id, samples)
        return output

    def _generate_rollout(
        self, args: Namespace, rollout_id: int, source: DataSource, evaluation: bool = False
    ) -> RolloutFnTrainOutput | RolloutFnEvalOutput:
        """The loop that our rollout hook delegates to, with the signature of slime's."""
        if evaluation:
            return self._run(evaluate(args, rollout_id))
        return self._run(Collector(args, rollout_id, source).run())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def _dump(self, name: str, rollout_id: int, samples: list[Sample]) -> None:
        """slime's debug dump, readable by its --load-debug-rollout-data."""
        if not self.args.save_debug_rollout_data:
            return
        path = Path(self.args.save_debug_rollout_data.format(rollout_id=name))
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"rollout_id": rollout_id, "samples": [s.to_dict() for s in samples]}
        torch.save(content, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)

    def state_dict(self) -> dict[str, Any]:
        """JSON-ready state of the data source, to be stored in a checkpoint."""
        return self.source.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken.

        Raises:
            CheckpointError: the state belongs to another seed or data set.
        """
        self.source.load_state_dict(state)

    def close(self) -> None:
        """Close connections and the event loop."""
        if not self.loop.is_closed():
            self._run(close_clients())
            self._run(self.loop.shutdown_default_executor())
            self.loop.close()

    def __enter__(self) -> RolloutHost:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
