"""Log-probabilities and entropy from logits whose vocabulary is split over tensor-parallel ranks.

Legend: N token, V this rank's share of the vocabulary. Sums and maxima over the vocabulary run over
all ranks of the group; logits and their gradient stay sharded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from spader_slime.megatron.grid import max_over, sum_over

NOTHING = -1e30  # stands for minus infinity, without its NaN in 0 * inf
CHUNK = 1 << 17  # entries worked on at a time, half a megabyte


def log_probs_and_entropy(
    logits_NV: Tensor,
    targets_N: Tensor,
    group: dist.ProcessGroup | None,
    vocab: int,
    temperature: float = 1.0,
    with_entropy: bool = True,
) -> tuple[Tensor, Tensor]:
    """log softmax(logits / temperature) at the targets, and the entropy in nats; differentiable.

    Args:
        logits_NV: this rank's columns; rank r owns vocabulary ids [r V, (r + 1) V). Overwritten.
        targets_N: global vocabulary ids, the same on every rank.
        group: the tensor-parallel group.
        vocab: true vocabulary size; columns past it are padding and have probability zero.
        temperature: of the rollout.
        with_entropy: False saves its cost and returns zeros.
    """
    start = dist.get_rank(group) * logits_NV.shape[1]
    padding = max(0, min(logits_NV.shape[1], start + logits_NV.shape[1] - vocab))
    return _LogProbs.apply(logits_NV, targets_N - start, group, padding, temperature, with_entropy)


class _LogProbs(torch.autograd.Function):
    """Works on a few rows at a time, in place: the logits are far larger than a processor's cache,
    and each pass over all of them would cost as much as computing them."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        local: Tensor,
        group: dist.ProcessGroup | None,
        padding: int,
        temperature: float,
        with_entropy: bool,
    ) -> tuple[Tensor, Tensor]:
        scaled = logits.detach()
        if temperature != 1.0:
            scaled /= temperature
        if padding:
            scaled[:, -padding:] = NOTHING
        top = max_over(group, scaled.amax(1))
        picked, owned = _pick(scaled, local)
        sums = (picked - top).where(owned, 0.0), *_exponentiate(scaled, top, with_entropy)
        picked, total, expected = sum_over(group, torch.stack(sums)).unbind()
        log_total = total.log()
        entropy = log_total - expected / total if with_entropy else torch.zeros_like(total)
        ctx.weights, ctx.options = scaled, (temperature, with_entropy)
        ctx.save_for_backward(total, local.where(owned, -1), entropy)
        return picked - log_total, entropy

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        total, local, entropy = ctx.saved_tensors
        temperature, with_entropy = ctx.options
        of_log_probs, of_entropy = (grad / temperature for grad in grads)
        gradient: Tensor = ctx.weights
        for rows in _chunks(gradient):
            probs = gradient[rows].div_(total[rows].unsqueeze(1))
            scale = -of_log_probs[rows].unsqueeze(1)
            if with_entropy and bool(of_entropy.any()):
                # dH/dz = -p (log p + H)
                log_p = probs.log().clamp_min_(NOTHING)
                scale = scale - of_entropy[rows, None] * (log_p + entropy[rows, None])
            probs *= scale
        owned = (local >= 0).nonzero().squeeze(1)
        gradient[owned, local[owned]] += of_log_probs[owned]
        return gradient, None, None, None, None, None


def _pick(logits: Tensor, local: Tensor) -> tuple[Tensor, Tensor]:
    """Each row's entry at its target, and whether this rank owns the target."""
    owned = (local >= 0) & (local < logits.shape[1])
    return logits.gather(1, local.where(owned, 0).unsqueeze(1)).squeeze(1), owned


def _exponentiate(logits: Tensor, top: Tensor, with_entropy: bool) -> tuple[Tensor, Tensor]:
    """Replace z = logits - top by exp(z); returns this rank's sums of exp(z) and of exp(z) z."""
    total, expected = torch.empty_like(top), torch.zeros_like(top)
    for rows in _chunks(logits):
        shifted = logits[rows].sub_(top[rows].unsqueeze(1))
        weights = shifted.exp()
        total[rows] = weights.sum(1)
        if with_entropy:
            expected[rows] = torch.linalg.vecdot(weights, shifted)
        shifted.copy_(weights)
    return total, expected


def _chunks(values: Tensor) -> Iterator[slice]:
    rows = max(1, CHUNK // values.shape[1]) if values.device.type == "cpu" else len(values)
    return (slice(start, start + rows) for start in range(0, len(values), max(1, rows)))
