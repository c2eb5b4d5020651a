"""Forked processes on gloo under Megatron's groups; real slime has to be importable before."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch


def on_ranks(world: int, axes: dict[str, int], work: Callable[[], Any]) -> list[Any]:
    """What `work()` returned on each of `world` processes.

    Args:
        axes: of Megatron's `initialize_model_parallel`.
    """
    for module in ("actor", "model", "data", "loss"):
        import_module(f"slime.backends.megatron_utils.{module}")
    with tempfile.TemporaryDirectory() as name:
        folder, context = Path(name), get_context("fork")
        ranks = [
            context.Process(target=_member, args=(rank, world, axes, folder, work))
            for rank in range(world)
        ]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        faults = [path.read_text() for path in folder.glob("*.txt")]
        assert not faults, "\n".join(faults)
        return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(world)]


def _member(
    rank: int, world: int, axes: dict[str, int], folder: Path, work: Callable[[], Any]
) -> None:
    try:
        torch.set_num_threads(1)
        store = torch.distributed.FileStore(str(folder / "store"), world)
        torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=world)
        import_module("megatron.core").mpu.initialize_model_parallel(**axes)
        torch.save(work(), folder / f"{rank}.pt")
    except BaseException:
        (folder / f"{rank}.txt").write_text(traceback.format_exc())
        os._exit(1)
    os._exit(0)
