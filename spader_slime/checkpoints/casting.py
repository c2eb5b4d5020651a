"""Data types of the output, by name."""

from __future__ import annotations

import torch
from torch import Tensor

from spader_slime.errors import CheckpointError

KEEP = "keep"  # every tensor stays as it is stored
NAMES = (KEEP, "bfloat16", "float16", "float32")


def dtype_of(name: str, stored: torch.dtype) -> torch.dtype:
    """The type that a tensor gets; `name` is one of `NAMES`."""
    if name == KEEP:
        return stored
    found = getattr(torch, name)
    assert isinstance(found, torch.dtype)
    return found


def dtype_name(dtype: torch.dtype) -> str:
    """`bfloat16`."""
    return str(dtype).removeprefix("torch.")


def cast(tensor: Tensor, dtype: torch.dtype, name: str) -> Tensor:
    """The tensor in another type.

    Raises:
        CheckpointError: a finite value becomes infinite.
    """
    result = tensor.to(dtype)
    if dtype is torch.float16 and bool((result.isinf() & ~tensor.isinf()).any()):
        raise CheckpointError(f"{name}: values too large for {dtype_name(dtype)}")
    return result
