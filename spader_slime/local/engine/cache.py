"""Keys and values of all layers in rows that stay in place, as a transformers `Cache`."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import Cache

from spader_slime.local.engine.plans import PLAN


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
