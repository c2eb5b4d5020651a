"""Process groups of the running trainer, for code that also runs where there is none."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist


def parallel_groups() -> tuple[dist.ProcessGroup | None, dist.ProcessGroup | None]:
    """Groups of context and of data parallelism; (None, None) outside Megatron."""
    state = _running()
    if state is None:
        return None, None
    return state.get_context_parallel_group(), state.get_data_parallel_group()


def context_place() -> tuple[int, int]:
    """(rank, size) of context parallelism in this process; (0, 1) outside Megatron."""
    state = _running()
    if state is None:
        return 0, 1
    return state.get_context_parallel_rank(), state.get_context_parallel_world_size()


def _running() -> Any:
    """Megatron's parallel state, or None where it is not installed or not initialized."""
    try:
        from megatron.core import parallel_state
    except ImportError:
        return None
    return parallel_state if parallel_state.model_parallel_is_initialized() else None


def tensor_group() -> dist.ProcessGroup:
    """Ranks that share the vocabulary; only inside Megatron."""
    from megatron.core import parallel_state

    return parallel_state.get_tensor_model_parallel_group()
