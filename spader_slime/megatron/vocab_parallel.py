"""Log-probabilities and entropy from logits whose vocabulary is split over tensor-parallel ranks.

Legend: N token, V this rank's share of the vocabulary. Sums and maxima over the vocabulary run over
all ranks of the group; logits and their gradient stay sharded.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from spader_slime.megatron.grid import max_over, sum_over


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
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        logits: Tensor,
        local: Tensor,
        group: dist.ProcessGroup | None,
        padding: int,
        temperature: float,
        with_entropy: bool,
    ) -> tuple[Tensor, Tensor]:
        shifted = _shift(logits, group, padding, temperature)
        picked, owned = _pick(shifted, local)
        probs = shifted.exp()
        total = probs.sum(1)
        expected = (probs * shifted).nan_to_num_(0.0).sum(1) if with_entropy else None
        parts = [total, picked] + ([expected] if expected is not None else [])
        total, picked, *rest = sum_over(group, torch.stack(parts)).unbind()
        probs /= total.unsqueeze(1)
        log_total = total.log()
        entropy = log_total - rest[0] / total if rest else torch.zeros_like(total)
        log_probs = picked - log_total
        ctx.save_for_backward(probs, local.where(owned, -1), entropy)
        ctx.temperature, ctx.with_entropy = temperature, with_entropy
        return log_probs, entropy

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        probs, local, entropy = ctx.saved_tensors
        grad_log_probs, grad_entropy = grads
        scale = -grad_log_probs.unsqueeze(1)
        if ctx.with_entropy and bool(grad_entropy.any()):
            # dH/dz = -p (log p + H)
            log_p = probs.log().clamp_min_(-1e4)
            scale = scale - grad_entropy.unsqueeze(1) * (log_p + entropy.unsqueeze(1))
        grad = probs * scale
        rows = (local >= 0).nonzero().squeeze(1)
        grad[rows, local[rows]] += grad_log_probs[rows]
        return grad.div_(ctx.temperature), None, None, None, None, None


def _shift(
    logits: Tensor, group: dist.ProcessGroup | None, padding: int, temperature: float
) -> Tensor:
    """logits / temperature minus the maximum over the whole vocabulary; padding is -inf."""
    scaled = logits if temperature == 1.0 else logits / temperature
    if padding:
        scaled = scaled.clone() if scaled is logits else scaled
        scaled[:, -padding:] = -torch.inf
    top = max_over(group, scaled.amax(1))
    return scaled - top.unsqueeze(1)


def _pick(shifted: Tensor, local: Tensor) -> tuple[Tensor, Tensor]:
    """Each row's entry at its target, zero where another rank owns the target."""
    owned = (local >= 0) & (local < shifted.shape[1])
    picked = shifted.gather(1, local.where(owned, 0).unsqueeze(1)).squeeze(1)
    return picked.where(owned, 0.0), owned
