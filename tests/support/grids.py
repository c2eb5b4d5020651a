"""Run a function on a real grid of trainer processes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spader_slime.megatron.grid import Place, dp_rank_of
from spader_slime.megatron.learner import Learner
from spader_slime.megatron.placement import gather_hf
from spader_slime.megatron.settings import LearnerSettings
from support.policies import Rollout, rows

SLOW_IMPORTS = [
    "megatron.core.dist_checkpointing",
    "megatron.core.models.gpt",
    "safetensors.torch",
    "torch.distributed.checkpoint",
    "transformers",
]
Work = Callable[..., Any]


def on_grid(settings: LearnerSettings, hf: Path, work: Work, *inputs: Any) -> Any:
    """`work(learner, *inputs)` on every process of the grid; what world rank 0 returned.

    A grid of one runs in this process.
    """
    if settings.world_size == 1:
        learner = Learner(settings, hf)
        try:
            return work(learner, *inputs)
        finally:
            learner.close()
    context = quick_context()
    with tempfile.TemporaryDirectory() as folder:
        places = [Place(r, f"file://{folder}/store", 120.0) for r in range(settings.world_size)]
        answer = Path(folder) / "answer.pt"
        processes = [
            context.Process(target=_member, args=(settings, hf, place, answer, work, inputs))
            for place in places
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert [p.exitcode for p in processes] == [0] * len(processes)
        return torch.load(answer, weights_only=False)


def quick_context() -> Any:
    """New processes come from a server that has the slow imports behind it."""
    context = get_context("forkserver")
    context.set_forkserver_preload(SLOW_IMPORTS)
    return context


def _member(
    settings: LearnerSettings, hf: Path, place: Place, answer: Path, work: Work, inputs: Any
) -> None:
    learner = Learner(settings, hf, place)
    result = work(learner, *inputs)
    if place.rank == 0:
        torch.save(result, answer)
    learner.close()


def own_rows(learner: Learner, data: Rollout) -> Rollout:
    """The trajectories of this process' data-parallel rank, dealt out one by one."""
    import torch.distributed as dist

    first = dp_rank_of(dist.get_rank(), learner.settings)
    return rows(data, list(range(first, len(data["tokens"]), learner.settings.dp)))


def gradients(learner: Learner, step: Callable[[], dict[str, float]]) -> dict[str, Any]:
    """What a training step reports, and the gradients it would have applied, by HF name."""
    optimizer = learner.optimizer
    apply = optimizer.step
    optimizer.step = lambda: {"grad_norm": 0.0, "lr": 0.0, "skipped": 0.0}  # type: ignore[method-assign]
    try:
        report = step()
    finally:
        optimizer.step = apply  # type: ignore[method-assign]
    optimizer.collect()
    report["grad_norm"] = optimizer.norm()
    found = _gathered_gradients(learner)
    optimizer.zero()
    return {"report": report, "gradients": found}


def _gathered_gradients(learner: Learner) -> dict[str, Tensor]:
    weights = [item.parameter.detach().clone() for item in learner.placed]
    with torch.no_grad():
        for item in learner.placed:
            assert item.parameter.grad is not None
            item.parameter.copy_(item.parameter.grad)
        found = {k: v.clone() for k, v in gather_hf(learner.placed, learner.config).items()}
        for item, weight in zip(learner.placed, weights, strict=True):
            item.parameter.copy_(weight)
    return found
