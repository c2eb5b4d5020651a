"""The tp x pp x dp grid of processes, on torch.distributed and Megatron's parallel state."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.tensor_parallel import model_parallel_cuda_manual_seed

from spader_slime.megatron.cpu import backend, device, has_cuda, on_device
from spader_slime.megatron.settings import LearnerSettings


@dataclass(frozen=True)
class Place:
    """Where this process is: its world rank and what starts the process group."""

    rank: int = 0
    init_method: str | None = None  # "file://" and a path, say; None: a store in this process
    timeout_s: float = 1800.0


def start_grid(settings: LearnerSettings, place: Place) -> None:
    """Join the grid. One grid per process; `stop_grid` ends it."""
    torch.set_num_threads(settings.threads)
    if has_cuda():
        torch.cuda.set_device(place.rank % torch.cuda.device_count())
    else:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", _loopback())
    _join(settings.world_size, place)
    with on_device():
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=settings.tp,
            pipeline_model_parallel_size=settings.pp,
            order="tp-cp-ep-dp-pp",
        )
    torch.manual_seed(settings.seed)
    if has_cuda():
        model_parallel_cuda_manual_seed(settings.seed)


def _join(world_size: int, place: Place) -> None:
    rendezvous: dict[str, object] = {"init_method": place.init_method}
    if place.init_method is None:
        rendezvous = {"store": dist.HashStore()}
    dist.init_process_group(
        backend(),
        rank=place.rank,
        world_size=world_size,
        timeout=timedelta(seconds=place.timeout_s),
        **rendezvous,  # type: ignore[arg-type]
    )


def _loopback() -> str:
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if name.startswith("lo")), names[0])


def stop_grid() -> None:
    """Leave the grid; the process can start another one."""
    parallel_state.destroy_model_parallel()
    if dist.is_initialized():
        dist.destroy_process_group()


def dp_rank_of(rank: int, settings: LearnerSettings) -> int:
    """Data-parallel rank of a world rank: tensor parallel varies fastest, then dp, then pp."""
    return rank // settings.tp % settings.dp


def over_replicas(values: Sequence[float]) -> list[float]:
    """Sums of plain numbers over data-parallel ranks."""
    group = parallel_state.get_data_parallel_group()
    if dist.get_world_size(group) == 1:
        return [float(value) for value in values]
    total = torch.tensor(values, dtype=torch.float64, device=device())
    return list(sum_over(group, total).tolist())


def is_last_stage() -> bool:
    """This process holds the output layer."""
    return bool(parallel_state.is_pipeline_last_stage())


def reports() -> bool:
    """One process of every data-parallel replica reports what the last stage knows."""
    return is_last_stage() and parallel_state.get_tensor_model_parallel_rank() == 0


def sum_over(group: dist.ProcessGroup | None, tensor: torch.Tensor) -> torch.Tensor:
    """All-reduce in place (sum), skipped for a group of one."""
    if dist.get_world_size(group) > 1:
        dist.all_reduce(tensor, group=group)
    return tensor


def max_over(group: dist.ProcessGroup | None, tensor: torch.Tensor) -> torch.Tensor:
    """All-reduce in place (maximum), skipped for a group of one."""
    if dist.get_world_size(group) > 1:
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=group)
    return tensor
