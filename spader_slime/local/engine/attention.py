"""Attention of packed tokens over key-value rows that stay in place.

The model runs on one packed line of tokens, [1, S]: one token of every decoding row, then the new
tokens of the rows being filled. Keys and values of row r, position t live at [r, :, t] of a tensor
per layer. `SlotCache.update` writes the new ones there and hands out the whole tensors; the
attention function, registered with transformers, then works group by group.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface, Cache

from spader_slime.errors import EngineError

NAME = "spader_slots"
_REFUSED = ("softcap", "s_aux", "position_bias")


@dataclass
class Group:
    """Some rows of the cache with M queries each (padded).

    Attributes:
        rows: int64 [n], or a slice of consecutive rows.
        take: int64 [n * M], the packed token of each query (padding repeats any of them).
        put: int64, the queries that are real, in the packed order of the group.
        positions: int64 [n, M], the last key each query sees.
        keys: so many positions are looked at.
    """

    rows: Tensor | slice
    take: Tensor
    put: Tensor
    positions: Tensor
    keys: int
    masks: dict[tuple[int | None, int], Tensor] = field(default_factory=dict)

    def mask(self, window: int | None, copies: int, dtype: torch.dtype) -> Tensor:
        """Additive [n, 1, copies * M, keys]; made once for all layers that ask for the same."""
        if (window, copies) not in self.masks:
            last = self.positions[:, :, None]
            at = torch.arange(self.keys, device=last.device)
            hidden = at > last
            if window is not None:
                hidden |= at <= last - window
            mask = torch.zeros(hidden.shape, dtype=dtype, device=last.device)
            mask.masked_fill_(hidden, -torch.inf)
            spread = mask[:, None].expand(-1, copies, -1, -1)
            self.masks[window, copies] = spread.reshape(len(mask), 1, -1, self.keys)
        return self.masks[window, copies]


@dataclass(frozen=True)
class Plan:
    """Where the packed tokens of one forward pass belong.

    Attributes:
        ids, rows, positions: int64 [S].
        groups: cover the packed tokens in order.
        keep: int64, the packed tokens whose logits are wanted.
    """

    ids: Tensor
    rows: Tensor
    positions: Tensor
    groups: list[Group]
    keep: Tensor


PLAN: ContextVar[Plan] = ContextVar("plan")


class SlotCache(Cache):
    """Keys and values of all layers, by row and position."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__(layers=[])
        self._shape = (rows, width)
        self._keys: dict[int, Tensor] = {}
        self._values: dict[int, Tensor] = {}

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write the new entries, [1, heads, S, D]; returns all, [rows, heads, width, D]."""
        if layer_idx not in self._keys:
            self._keys[layer_idx] = self._empty(key_states)
            self._values[layer_idx] = self._empty(value_states)
        keys, values, plan = self._keys[layer_idx], self._values[layer_idx], PLAN.get()
        keys.transpose(1, 2)[plan.rows, plan.positions] = key_states[0].transpose(0, 1)
        values.transpose(1, 2)[plan.rows, plan.positions] = value_states[0].transpose(0, 1)
        return keys, values

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Positions are always given explicitly."""
        return 0

    def copy(self, source: int, target: int, length: int) -> None:
        """Make the first `length` positions of row `target` those of row `source`."""
        for tensor in (*self._keys.values(), *self._values.values()):
            tensor[target, :, :length] = tensor[source, :, :length]

    def bytes_per_token(self) -> int:
        """Of all layers; after the first forward pass."""
        tensors = (*self._keys.values(), *self._values.values())
        return sum(t.shape[1] * t.shape[3] * t.element_size() for t in tensors)

    def resize(self, rows: int, width: int) -> None:
        """Drop all entries and start over with another shape."""
        self._shape = (rows, width)
        self._keys.clear()
        self._values.clear()

    def _empty(self, states: Tensor) -> Tensor:
        rows, width = self._shape
        return states.new_zeros(rows, states.shape[1], width, states.shape[3])


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
