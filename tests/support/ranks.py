"""Real processes on gloo with Megatron's own process groups; each runs the advantage hook."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch

from support.grids import quick_context

Shards = list[dict[str, Any]]


def advantages_by_rank(
    shards: Shards, cp: int, spader: dict[str, Any] | None = None
) -> dict[tuple[int, int], dict[str, Any]]:
    """(data-parallel rank, context-parallel rank) -> rollout data after `compute_advantages`."""
    world, context = len(shards) * cp, quick_context()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        processes = [
            context.Process(target=_member, args=(rank, world, cp, shards, folder, spader))
            for rank in range(world)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert [p.exitcode for p in processes] == [0] * world
        return dict(torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(world))


def _member(
    rank: int, world: int, cp: int, shards: Shards, folder: Path, spader: dict[str, Any] | None
) -> None:
    from megatron.core import mpu

    from spader_slime import hooks

    torch.set_num_threads(1)
    store = torch.distributed.FileStore(str(folder / "store"), world)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=world)
    mpu.initialize_model_parallel(context_parallel_size=cp)
    place = (mpu.get_data_parallel_rank(), mpu.get_context_parallel_rank())
    data = dict(shards[place[0]])
    hooks.compute_advantages(Namespace(spader=spader), data)
    torch.save((place, data), folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()
