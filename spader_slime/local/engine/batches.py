"""From rows and tokens to the tensors of one forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spader_slime.local.engine.plans import Group, Plan

Ints = NDArray[np.int64]
_SPARSE = 2  # rows spread over more than so many times their number are gathered


@dataclass(frozen=True)
class Batch:
    """New tokens of n rows of the cache, S in all.

    Attributes:
        rows: int64 [n]; first rows with one new token each, by number, then the others.
        starts: int64 [n], position of each one's first new token.
        sizes: int64 [n], how many.
        ids: int64 [S], packed.
        keep: int64, the packed tokens whose logits are wanted.
    """

    rows: Ints
    starts: Ints
    sizes: Ints
    ids: Ints
    keep: Ints


def make_plan(batch: Batch, device: torch.device) -> Plan:
    """Where the tokens belong, and the groups in which they attend."""
    firsts = batch.sizes.cumsum() - batch.sizes
    offsets = np.arange(len(batch.ids)) - np.repeat(firsts, batch.sizes)
    bounds = _bounds(batch.sizes)
    return Plan(
        ids=_tensor(batch.ids, device),
        rows=_tensor(np.repeat(batch.rows, batch.sizes), device),
        positions=_tensor(np.repeat(batch.starts, batch.sizes) + offsets, device),
        groups=[_group(batch, firsts, slice(a, b), device) for a, b in pairwise(bounds)],
        keep=_tensor(batch.keep, device),
    )


def _bounds(sizes: Ints) -> list[int]:
    """Cuts between neighbours whose sizes differ in powers of two: little padding, few groups."""
    powers = np.ceil(np.log2(sizes))
    return [0, *(np.flatnonzero(np.diff(powers)) + 1).tolist(), len(sizes)]


def _group(batch: Batch, firsts: Ints, part: slice, device: torch.device) -> Group:
    rows, sizes = batch.rows[part], batch.sizes[part]
    longest, low = int(sizes.max()), int(rows.min())
    span = int(rows.max()) + 1 - low
    view = longest == 1 and span <= _SPARSE * len(rows)
    place = rows - low if view else np.arange(len(rows))
    count = span if view else len(rows)
    column = np.arange(longest)
    offsets = np.minimum(column, sizes[:, None] - 1)
    take = np.full((count, longest), firsts[part][0])
    last = np.zeros((count, longest), np.int64)
    take[place] = firsts[part][:, None] + offsets
    last[place] = batch.starts[part][:, None] + offsets
    put = (place[:, None] * longest + column)[column < sizes[:, None]]
    return Group(
        slice(low, low + span) if view else _tensor(rows, device),
        _tensor(take.ravel(), device),
        _tensor(put, device),
        _tensor(last, device),
        int(last.max()) + 1,
    )


def _tensor(values: NDArray[Any], device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64)).to(device)
