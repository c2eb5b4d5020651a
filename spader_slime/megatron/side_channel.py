"""Values that ride on the tensors of a list, from the advantage hook to the loss.

slime hands the loss a fixed set of keys, but the very tensor objects that lie in the lists of
`rollout_data`. What is attached to one of them arrives with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from spader_slime.errors import DataError

PREFIX = "spader_"


def attach(tensors: Iterable[Tensor], name: str, values: Iterable[Any]) -> None:
    """Put `values[i]` on `tensors[i]`."""
    for tensor, value in zip(tensors, values, strict=True):
        setattr(tensor, PREFIX + name, value)


def attached(tensors: Sequence[Tensor] | None, name: str) -> list[Any]:
    """What `attach` put on each of `tensors`.

    Raises:
        DataError: it is not there: another advantage hook ran, or the tensors were copied.
    """
    if tensors is None or not all(hasattr(tensor, PREFIX + name) for tensor in tensors):
        raise DataError(
            f"the loss was handed no {name}: it needs --custom-advantage-function-path "
            "spader_slime.hooks.compute_advantages"
        )
    return [getattr(tensor, PREFIX + name) for tensor in tensors]
