"""Forward KL to a teacher's top k, from logits whose vocabulary is split over ranks.

    logits, student_MK = take_student(logits, tokens, group, temperature)
    log_probs_N = ...(logits)          # whatever computes the policy's log-probs, from then on
    kl_M = forward_kl(student_MK, tokens, log_probs_N[...], tail)

Only the named logits are ever read, and their gradient is added into the one that the log-probs
send back: nothing as wide as the vocabulary is made. With `tail="keep"` the normalizer comes out of
the log-probs, so that the gradient of all other tokens flows through theirs, too. The student's
tail is then what the k tokens leave of 1: its relative error is the rounding of the sampled token's
log-prob over the tail, in float32 some 1e-7 / tail, tenfold where an improbable one was sampled.

Legend: N row of the logits, M gated token (a row that the teacher is asked about), K the teacher's
most probable tokens, V this rank's share of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from spader_slime.algorithms import distillation

CHUNK = 1 << 16  # tokens looked up at a time


@dataclass(frozen=True)
class GatedTokens:
    """Where the forward KL applies, and what the teacher says there.

    Attributes:
        rows_M: rows of this rank's logits; the same on every tensor-parallel rank, each once.
        sampled_M: vocabulary ids of the tokens that were sampled there.
        ids_MK: vocabulary ids of the teacher's most probable tokens.
        teacher_MK: their log-probs under the teacher, in nats.
    """

    rows_M: Tensor
    sampled_M: Tensor
    ids_MK: Tensor
    teacher_MK: Tensor


def take_student(
    logits_NV: Tensor,
    tokens: GatedTokens,
    group: dist.ProcessGroup | None,
    temperature: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """The student's logits over `temperature` at the teacher's tokens; one all-reduce.

    Args:
        logits_NV: rank r owns vocabulary ids [r V, (r + 1) V). float32, as slime hands them to a
            loss; of bfloat16 the gradients would be added in bfloat16.

    Returns:
        The logits to go on with: the same memory, to be used in place of `logits_NV` (the gradient
        of the taken ones is added into theirs). They may be overwritten.
        float32 (float64 of float64) [M, K + 1], the same on all ranks: the last column is that of
        the sampled token.
    """
    ids = torch.cat([tokens.ids_MK, tokens.sampled_M[:, None]], 1)
    start = dist.get_rank(group) * logits_NV.shape[1]
    logits, taken = _Take.apply(logits_NV, tokens.rows_M, ids - start, group)
    return logits, taken / temperature


def forward_kl(
    student_MK: Tensor, tokens: GatedTokens, log_probs_M: Tensor, tail: str = "drop"
) -> Tensor:
    """KL(teacher || student) of every gated token in nats, [M]; differentiable.

    Args:
        student_MK: of `take_student`, [M, K + 1].
        log_probs_M: the policy's log-probs of the sampled tokens, from the logits that
            `take_student` returned and at its temperature, over the whole vocabulary; only
            `tail="keep"` reads them.
        tail: see `algorithms.distillation.forward_kl`.
    """
    named, teacher = student_MK[:, :-1].double(), tokens.teacher_MK.double()
    if tail == "keep":  # log-sum-exp = logit - log-prob, of the sampled token
        named = named - (student_MK[:, -1] - log_probs_M.double()).unsqueeze(1)
    return distillation.forward_kl(teacher, named, tail).to(student_MK.dtype)


class _Take(torch.autograd.Function):
    """Hands the logits through, so that their whole gradient comes by and can be added to."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, rows: Tensor, local: Tensor, group: dist.ProcessGroup | None
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(rows, local)
        ctx.like = logits.shape, logits.dtype
        precision = torch.promote_types(logits.dtype, torch.float32)
        taken = torch.zeros(local.shape, dtype=precision, device=logits.device)
        for part in _chunks(len(rows)):
            at, column, owned = _owned(rows[part], local[part], logits.shape[1])
            taken[part][owned] = logits[at, column].to(precision)
        if len(rows) and dist.get_world_size(group) > 1:
            dist.all_reduce(taken, group=group)
        return logits, taken

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, gradient: Tensor | None, of_taken: Tensor | None
    ) -> tuple[Tensor | None, None, None, None]:
        rows, local = ctx.saved_tensors
        shape, dtype = ctx.like
        if of_taken is None:
            return gradient, None, None, None
        if gradient is None:
            gradient = torch.zeros(shape, dtype=dtype, device=of_taken.device)
        elif 0 in gradient.stride():  # expanded: its memory is not its own
            gradient = gradient.contiguous()
        for part in _chunks(len(rows)):
            at, column, owned = _owned(rows[part], local[part], shape[1])
            values = of_taken[part][owned].to(gradient.dtype)
            gradient.index_put_((at, column), values, accumulate=True)
        return gradient, None, None, None


def _owned(rows_M: Tensor, local_MK: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows and columns of the entries that this rank has, and which those are."""
    owned = (local_MK >= 0) & (local_MK < width)
    return rows_M[:, None].expand_as(local_MK)[owned], local_MK[owned], owned


def _chunks(count: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, count, CHUNK))
