"""How one full Megatron tensor is made of Hugging Face tensors and split over ranks.

A *full* tensor has the size it has at tensor parallel 1. Layouts of the Megatron side:
- QKV: rows grouped by key-value head: that group's query heads, its key head, its value head.
- GATE_UP: gate rows, then up rows; a tensor-parallel rank holds its part of each, one after the
  other.
- VOCAB: rows padded with zeros to a multiple of the tensor-parallel size.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import torch
from torch import Tensor

from spader_slime.megatron.shape import ModelConfig


class Layout(Enum):
    """How a full tensor is split over tensor-parallel ranks and related to Hugging Face ones."""

    WHOLE = "whole"  # the same on every rank
    ROWS = "rows"
    COLUMNS = "columns"
    VOCAB = "vocab"
    QKV = "qkv"
    GATE_UP = "gate_up"


def to_hf(layout: Layout, full: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """The Hugging Face tensors made of one full Megatron tensor."""
    if layout is Layout.QKV:
        queries = config.heads // config.groups
        split = full.view(config.groups, queries + 2, config.head_dim, *full.shape[1:])
        parts = split.split([queries, 1, 1], dim=1)
        return tuple(part.reshape(-1, *full.shape[1:]) for part in parts)
    if layout is Layout.GATE_UP:
        return tuple(full.chunk(2))
    return (full[: config.vocab],) if layout is Layout.VOCAB else (full,)


def from_hf(layout: Layout, parts: Sequence[Tensor], config: ModelConfig, tp: int) -> Tensor:
    """The full Megatron tensor made of Hugging Face tensors; inverse of `to_hf`."""
    if layout is Layout.QKV:
        shape = (config.groups, -1, config.head_dim, *parts[0].shape[1:])
        return torch.cat([part.reshape(shape) for part in parts], dim=1).flatten(0, 2)
    if layout is Layout.GATE_UP:
        return torch.cat(list(parts))
    if layout is Layout.VOCAB:
        missing = config.padded_vocab(tp) - parts[0].shape[0]
        if not missing:
            return parts[0]
        return torch.cat([parts[0], parts[0].new_zeros(missing, *parts[0].shape[1:])])
    return parts[0]


def shard(layout: Layout, full: Tensor, rank: int, tp: int) -> Tensor:
    """Tensor-parallel rank `rank`'s part of a full tensor."""
    if layout is Layout.WHOLE or tp == 1:
        return full
    if layout is Layout.COLUMNS:
        return full.chunk(tp, dim=1)[rank]
    if layout is Layout.GATE_UP:
        return torch.cat([half.chunk(tp)[rank] for half in full.chunk(2)])
    return full.chunk(tp)[rank]


def unshard(layout: Layout, shards: Sequence[Tensor]) -> Tensor:
    """The full tensor from all ranks' parts, in rank order; inverse of `shard`."""
    if layout is Layout.WHOLE or len(shards) == 1:
        return shards[0]
    if layout is Layout.COLUMNS:
        return torch.cat(list(shards), dim=1)
    if layout is Layout.GATE_UP:
        halves = zip(*(part.chunk(2) for part in shards), strict=True)
        return torch.cat([torch.cat(half) for half in halves])
    return torch.cat(list(shards))
