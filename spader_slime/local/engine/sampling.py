"""Drawing tokens for a whole batch at once, each row with random numbers of its own.

A token is drawn as the winner of an exponential race: with weights w_j (softmax numerators) and
independent exponential times E_j, argmax w_j / E_j falls on j with probability w_j / sum(w). The
times are a hash of (seed of the row, position in its sequence, token), so a draw does not depend on
what else is in the batch, nor on what was drawn before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_ODD = 0x2C1B3C6D  # multiplier of the second mixing round; fits int32


@dataclass(frozen=True)
class Draw:
    """How each of R rows is drawn.

    Attributes:
        temperature: float32 [R], 1 for greedy rows.
        greedy: bool [R].
        seeds: uint64 [R].
        positions: int64 [R], index in its sequence of the token to draw.
        top_k: int64 [R], 0 for all. top_p: float32 [R]. min_p: float32 [R].
    """

    temperature: NDArray[np.float32]
    greedy: NDArray[np.bool_]
    seeds: NDArray[np.uint64]
    positions: NDArray[np.int64]
    top_k: NDArray[np.int64]
    top_p: NDArray[np.float32]
    min_p: NDArray[np.float32]


class Sampler:
    """Draws from logits over a vocabulary of fixed size."""

    def __init__(self, vocab: int, device: torch.device) -> None:
        self._device = device
        tokens = _mixed(np.arange(vocab, dtype=np.uint64) * _GOLDEN)
        self._tokens = _low(tokens).to(device)

    def __call__(self, logits: Tensor, draw: Draw) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Tokens [R], and the log-prob of each by softmax(logits / temperature), in nats.

        `logits`, float32 [R, V], are divided by the temperature in place.
        """
        if (draw.temperature != 1).any():
            logits.div_(self._column(draw.temperature))
        top = logits.amax(-1, keepdim=True)
        weights = (logits - top).exp_()
        totals = top + weights.sum(-1, keepdim=True).log_()
        ids = self._race(logits, weights, draw)
        chosen = logits.gather(1, self._column(ids)).sub_(totals)
        return ids, chosen[:, 0].cpu().numpy()

    def _race(self, logits: Tensor, weights: Tensor, draw: Draw) -> NDArray[np.int64]:
        if draw.greedy.all():
            return _argmin(-logits)
        weights = self._filtered(weights, draw).div_(self._negative_times(draw))
        ids = _argmin(weights)
        if draw.greedy.any():
            rows = np.flatnonzero(draw.greedy)
            ids[rows] = _argmin(-logits[torch.from_numpy(rows).to(self._device)])
        return ids

    def _negative_times(self, draw: Draw) -> Tensor:
        """Exponential times by [R, V], float32, all negated: log(1 - u) of uniform u > 0."""
        keys = _mixed(_mixed(draw.seeds * _GOLDEN) + draw.positions.astype(np.uint64) * _GOLDEN)
        bits = self._tokens ^ _low(keys).to(self._device)[:, None]
        bits.mul_(_low(keys >> np.uint64(32)).to(self._device)[:, None] | 1)
        bits.bitwise_xor_((bits >> 15).bitwise_and_(0x1FFFF))
        bits.mul_(_ODD).bitwise_and_(0x7FFFFFFF)
        return bits.to(torch.float32).mul_(-(2.0**-31)).sub_(2.0**-32).log1p_()

    def _filtered(self, weights: Tensor, draw: Draw) -> Tensor:
        """Zeros where top-k, top-p or min-p leave a token out."""
        cut = ((draw.top_k > 0) | (draw.top_p < 1) | (draw.min_p > 0)) & ~draw.greedy
        if not cut.any():
            return weights
        rows = np.flatnonzero(cut)
        index = torch.from_numpy(rows).to(self._device)
        limits = (self._column(a[rows]) for a in (draw.top_k, draw.top_p, draw.min_p))
        weights[index] = _cut(weights[index], *limits)
        return weights

    def _column(self, values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(self._device)[:, None]


def _argmin(values: Tensor) -> NDArray[np.int64]:
    """By row. numpy's is an order of magnitude faster than torch's on CPU."""
    if values.device.type == "cpu":
        return values.numpy().argmin(1)
    return values.argmin(1).cpu().numpy()


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A bijective hash of 64 bits."""
    keys = (keys ^ (keys >> np.uint64(30))) * _MIX[0]
    keys = (keys ^ (keys >> np.uint64(27))) * _MIX[1]
    result: NDArray[np.uint64] = keys ^ (keys >> np.uint64(31))
    return result


def _low(keys: NDArray[np.uint64]) -> Tensor:
    return torch.from_numpy(keys.astype(np.uint32).view(np.int32))


def _cut(weights: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor) -> Tensor:
    """Each rule looks at the whole distribution; a token stays when all three let it."""
    values, order = weights.sort(dim=-1, descending=True)
    sums = values.cumsum(-1)
    rank = torch.arange(values.shape[-1], device=values.device)
    keep = (sums - values <= top_p * sums[:, -1:]) & (values >= min_p * values[:, :1])
    keep &= (rank < top_k) | (top_k <= 0)
    keep[:, 0] = True
    return torch.zeros_like(weights).scatter_(-1, order, values * keep)
