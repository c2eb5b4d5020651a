"""Attention of packed tokens over key-value rows that stay in place.

A forward pass takes one token of every decoding row, then the new tokens of the rows being filled,
all on one line: linear layers meet no padding. `SlotCache.update` writes the new keys and values
where they belong and hands out all rows; the attention function here, registered with transformers,
then works group by group. No mask passes through the model, so any architecture that calls
transformers' attention interface is served, sliding windows included.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface

from spader_slime.errors import EngineError
from spader_slime.local.engine.plans import PLAN, Group

NAME = "spader_slots"
_REFUSED = ("softcap", "s_aux", "position_bias")


def attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' attention interface: query [1, heads, S, D] -> [1, S, heads, D]."""
    for name in _REFUSED:
        if kwargs.get(name) is not None:
            raise EngineError(f"this engine does not support attention with '{name}'")
    packed = query[0].transpose(0, 1)
    parts = [_one(packed, key, value, g, scaling, sliding_window) for g in PLAN.get().groups]
    return torch.cat(parts)[None] if len(parts) > 1 else parts[0][None], None


def _one(
    packed: Tensor,
    key: Tensor,
    value: Tensor,
    group: Group,
    scale: float | None,
    window: int | None,
) -> Tensor:
    keys, values = _rows(key, group), _rows(value, group)
    count, heads = keys.shape[:2]
    dim = packed.shape[2]
    queries = packed[group.take].view(count, -1, heads, packed.shape[1] // heads, dim)
    shared = queries.permute(0, 2, 3, 1, 4).reshape(count, heads, -1, dim)  # [n, KV, G * M, D]
    mask = group.mask(window, queries.shape[3], packed.dtype)
    out = F.scaled_dot_product_attention(shared, keys, values, attn_mask=mask, scale=scale)
    out = out.view(count, heads, queries.shape[3], -1, values.shape[3]).permute(0, 3, 1, 2, 4)
    return out.reshape(-1, packed.shape[1], values.shape[3])[group.put]


def _rows(tensor: Tensor, group: Group) -> Tensor:
    part = tensor[:, :, : group.keys]
    return part[group.rows] if isinstance(group.rows, slice) else part.index_select(0, group.rows)


AttentionInterface.register(NAME, attend)
