"""Where the tokens of one forward pass belong; the model sees them on one packed line, [1, S]."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

import torch
from torch import Tensor


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
"""The plan of the pass under way, for the cache and the attention function in its midst."""
