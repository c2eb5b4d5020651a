"""Checkpoints in Megatron's torch_dist format that are either complete or not there.

A checkpoint is written under a temporary name, forced to disk, and renamed; `complete.json` in it
lists every file and its size. So a process killed at any moment leaves at most a temporary folder,
and a folder that lost files later is recognized.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from megatron.core import dist_checkpointing
from megatron.core.dist_checkpointing.core import CheckpointingException
from megatron.core.dist_checkpointing.optimizer import (
    get_param_id_to_sharded_param_map,
    make_sharded_optimizer_tensor,
)
from torch.distributed.checkpoint.api import CheckpointException

from spader_slime.errors import CheckpointError
from spader_slime.megatron.cpu import uses_device
from spader_slime.megatron.export import swap_in, sync, sync_files
from spader_slime.megatron.folders import (
    COMPLETE,
    NAME,
    TRACKER,
    all_checkpoints,
    is_complete,
    latest,
)
from spader_slime.megatron.writer import InProcessSave

if TYPE_CHECKING:
    from spader_slime.megatron.learner import Learner

STATE = "state.json"
MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Restored:
    """What `load` found: the iteration, the caller's state, and whether Adam's moments came too."""

    iteration: int
    state: dict[str, Any]
    optimizer: bool


@uses_device
def save(
    learner: Learner, folder: Path, iteration: int, state: dict[str, Any], keep: int | None
) -> Path:
    """See `Learner.save`."""
    target = folder / f"iter_{iteration:07d}"
    beside = folder / f".{target.name}.tmp"
    text = json.dumps(state)
    if dist.get_rank() == 0:
        for stale in [*folder.glob(".iter_*.tmp"), *folder.glob(".iter_*.old")]:
            shutil.rmtree(stale)
        beside.mkdir(parents=True)
    dist.barrier()
    dist_checkpointing.save(_sharded(learner, loading=False), beside, InProcessSave())
    if dist.get_rank() == 0:
        (beside / STATE).write_text(text)
        _finish(beside, target, iteration)
        _prune(folder, keep)
    dist.barrier()
    return target


def _finish(beside: Path, target: Path, iteration: int) -> None:
    files = {p.name: p.stat().st_size for p in beside.iterdir()}
    (beside / COMPLETE).write_text(json.dumps({"iteration": iteration, "files": files}))
    sync_files(beside)
    swap_in(beside, target)
    tracker = target.parent / TRACKER
    pending = tracker.with_suffix(".tmp")
    pending.write_text(str(iteration))
    sync(pending)
    os.replace(pending, tracker)


def _prune(folder: Path, keep: int | None) -> None:
    for old in all_checkpoints(folder)[:-keep] if keep else ():
        (old / COMPLETE).unlink(missing_ok=True)  # incomplete from here on, whatever happens
        shutil.rmtree(old)


@uses_device
def load(learner: Learner, folder: Path) -> Restored:
    """See `Learner.load`."""
    chosen = folder if NAME.fullmatch(folder.name) else latest(folder)
    if chosen is None or not is_complete(chosen):
        raise CheckpointError(f"{folder}: no complete checkpoint")
    try:
        loaded = dist_checkpointing.load(_sharded(learner, loading=True), str(chosen))
    except (CheckpointingException, CheckpointException, KeyError, RuntimeError, OSError) as error:
        why = str(error).strip().splitlines()[-1]
        raise CheckpointError(f"{chosen}: does not fit this model ({why})") from error
    _restore(learner, loaded)
    text = (chosen / STATE).read_text()
    iteration = json.loads((chosen / COMPLETE).read_text())["iteration"]
    return Restored(iteration, json.loads(text), True)


def _sharded(learner: Learner, loading: bool) -> dict[str, Any]:
    """What goes into a checkpoint, with the place of every local part in the whole."""
    model = learner.policy.model.sharded_state_dict()
    parameters = list(learner.optimizer.named.values())
    places = get_param_id_to_sharded_param_map(model, parameters)
    moments = {
        key: {
            index: make_sharded_optimizer_tensor(
                places[index], learner.optimizer.moment(parameter, key), f"optimizer.state.{key}"
            )
            for index, parameter in enumerate(parameters)
        }
        for key in MOMENTS
    }
    # One random state serves all processes: without dropout no rank draws numbers of its own.
    common = (
        {}
        if loading
        else {"optimizer_steps": learner.optimizer.steps, "rng": torch.get_rng_state()}
    )
    return {"model": model, "optimizer": moments, **common}


def _restore(learner: Learner, loaded: dict[str, Any]) -> None:
    learner.policy.model.load_state_dict(loaded["model"])
    learner.optimizer.restore(loaded["optimizer"], loaded["optimizer_steps"])
    torch.set_rng_state(loaded["rng"])
