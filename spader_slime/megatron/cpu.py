"""Running Megatron-core without CUDA.

Megatron-core asks for the current CUDA device in many places. Within `on_device()` those questions
are answered with "cpu" when no CUDA device is there; with one, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode

F = TypeVar("F", bound=Callable[..., Any])


def has_cuda() -> bool:
    return torch.cuda.is_available()


def backend() -> str:
    """The collective backend of this machine: "nccl" or "gloo"."""
    return "nccl" if has_cuda() else "gloo"


def device() -> torch.device:
    """The device that holds this process' parameters."""
    return torch.device("cuda", torch.cuda.current_device()) if has_cuda() else torch.device("cpu")


class _CudaMeansCpu(TorchFunctionMode):
    """Keeps on the CPU what a torch function is asked to create on, or move to, "cuda"."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        if kwargs and "device" in kwargs and str(kwargs["device"]).startswith("cuda"):
            kwargs = {**kwargs, "device": "cpu"}
        return func(*args, **(kwargs or {}))


_depth = 0


@contextmanager
def on_device() -> Iterator[None]:
    """Megatron-core works inside, with or without CUDA. Cheap to nest."""
    global _depth
    if has_cuda() or _depth:
        yield
        return
    _depth += 1
    saved = torch.cuda.current_device, torch.cuda.synchronize
    torch.cuda.current_device = _cpu  # type: ignore[assignment]
    torch.cuda.synchronize = _nothing  # type: ignore[assignment]
    try:
        with _CudaMeansCpu():
            yield
    finally:
        torch.cuda.current_device, torch.cuda.synchronize = saved
        _depth -= 1


def _cpu() -> str:
    return "cpu"


def _nothing(*_: Any) -> None:
    return None


def uses_device(function: F) -> F:
    """Run `function` inside `on_device()`."""

    @wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with on_device():
            return function(*args, **kwargs)

    return inside  # type: ignore[return-value]
