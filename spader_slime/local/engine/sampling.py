"""Drawing tokens for a whole batch at once, each row with random numbers of its own.

A token is drawn as the winner of an exponential race: with weights w_j (softmax numerators) and
independent exponential times E_j, argmax w_j / E_j falls on j with probability w_j / sum(w). The
times are a hash of (seed of the row, position in its sequence, token), so a draw does not depend on
what else is in the batch, nor on what was drawn before.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    def __call__(self, logits: Tensor, draw: Draw) -> tuple[Tensor, Tensor]:
        """Tokens int64 [R] and the float32 log-probs [R, V] of `logits` / temperature.

        `logits` float32 [R, V] is overwritten.
        """
        if (draw.temperature != 1).any():
            logits.div_(torch.from_numpy(draw.temperature).to(self._device)[:, None])
        log_probs = logits.sub_(logits.logsumexp(-1, keepdim=True))
        if draw.greedy.all():
            return log_probs.argmax(-1), log_probs
        weights = _filtered(log_probs.exp(), draw)
        tokens = weights.div_(self._times(draw)).max(-1).indices
        if draw.greedy.any():
            rows = torch.from_numpy(np.flatnonzero(draw.greedy)).to(self._device)
            tokens[rows] = log_probs[rows].argmax(-1)
        return tokens, log_probs

    def _times(self, draw: Draw) -> Tensor:
        """Exponential times float32 [R, V], all above zero."""
        keys = _mixed(_mixed(draw.seeds * _GOLDEN) + draw.positions.astype(np.uint64) * _GOLDEN)
        first = _low(keys).to(self._device)[:, None]
        second = _low(keys >> np.uint64(32)).to(self._device)[:, None] | 1
        bits = self._tokens ^ first
        bits.mul_(second)
        bits.bitwise_xor_((bits >> 15).bitwise_and_(0x1FFFF))
        bits.mul_(_ODD).bitwise_and_(0x7FFFFFFF)
        return bits.to(torch.float32).add_(0.5).mul_(-(2.0**-31)).log1p_().neg_().clamp_(min=1e-10)


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A bijective hash of 64 bits."""
    keys = (keys ^ (keys >> np.uint64(30))) * _MIX[0]
    keys = (keys ^ (keys >> np.uint64(27))) * _MIX[1]
    result: NDArray[np.uint64] = keys ^ (keys >> np.uint64(31))
    return result


def _low(keys: NDArray[np.uint64]) -> Tensor:
    return torch.from_numpy(keys.astype(np.uint32).view(np.int32))


def _filtered(probs: Tensor, draw: Draw) -> Tensor:
    """Zeros where top-k, top-p or min-p leave a token out."""
    cut = (draw.top_k > 0) | (draw.top_p < 1) | (draw.min_p > 0)
    if not cut.any():
        return probs
    rows = np.flatnonzero(cut)
    index = torch.from_numpy(rows).to(probs.device)
    probs[index] = _cut(probs[index], *(_column(a[rows], probs.device) for a in _cuts(draw)))
    return probs


def _cuts(draw: Draw) -> tuple[NDArray[np.generic], ...]:
    return draw.top_k, draw.top_p, draw.min_p


def _column(values: NDArray[np.generic], device: torch.device) -> Tensor:
    return torch.from_numpy(values).to(device)[:, None]


def _cut(probs: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor) -> Tensor:
    """Each rule looks at the whole distribution; a token stays when all three let it."""
    values, order = probs.sort(dim=-1, descending=True)
    before = values.cumsum(-1) - values
    rank = torch.arange(values.shape[-1], device=values.device)
    keep = (before <= top_p) & (values >= min_p * values[:, :1])
    keep &= (rank < top_k) | (top_k <= 0)
    keep[:, 0] = True
    return torch.zeros_like(probs).scatter_(-1, order, values * keep)
