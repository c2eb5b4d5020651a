"""Distillation from a teacher's k most probable tokens (EOPD, arXiv 2603.07079), dense and plain.

Legend: N token, K the teacher's k most probable tokens there, V vocabulary. All logarithms are
natural: entropies and divergences are in nats. The sharded counterpart is `megatron/forward_kl.py`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

SMALLEST_TAIL = 2.0**-23  # of the student: float32 resolves none smaller beside 1


def entropy(log_probs_NV: Tensor) -> Tensor:
    """Exact entropy of whole distributions, [N]; a log-prob of -inf counts nothing."""
    probs = log_probs_NV.exp()
    return -torch.where(probs > 0, probs * log_probs_NV, 0.0).sum(-1)


def entropy_from_top_k(log_probs_NK: Tensor) -> Tensor:
    """Entropy, [N], with all mass t outside the top k taken as one bucket.

    A lower bound: the exact entropy is larger by t times that of the tail, hence by at most
    `entropy_gap`.
    """
    tail = tail_mass(log_probs_NK)
    return entropy(log_probs_NK) - torch.special.xlogy(tail, tail)


def entropy_gap(log_probs_NK: Tensor, vocab: int) -> Tensor:
    """How much `entropy_from_top_k` can be too small, [N]: t log(V - k), an even tail."""
    rest = vocab - log_probs_NK.shape[-1]
    return tail_mass(log_probs_NK) * (math.log(rest) if rest > 1 else 0.0)


def tail_mass(log_probs_NK: Tensor) -> Tensor:
    """Probability outside the top k, [N], in [0, 1]; rounding below 0 is cut."""
    return (1.0 - log_probs_NK.exp().sum(-1)).clamp_min(0.0)


def entropy_threshold(entropy_N: Tensor, quantile: float) -> float:
    """The entropy that a share `quantile` of the tokens does not pass, in nats.

    Tokens above it are gated: 0.8 gates the most uncertain fifth (fewer where many are equal), 1
    none, and 0 all (-inf). Infinity without tokens.

    Args:
        quantile: in [0, 1].
    """
    rank = math.ceil(quantile * len(entropy_N) - 1e-9)
    if not len(entropy_N):
        return math.inf
    return float(entropy_N.kthvalue(rank).values) if rank > 0 else -math.inf


def reverse_kl(student_N: Tensor, teacher_N: Tensor) -> Tensor:
    """log student - log teacher of the sampled tokens, [N]: an estimate of KL(student || teacher).

    Unbiased for tokens sampled from the student; a single value may be negative. EOPD subtracts it,
    times a coefficient, from the advantage.
    """
    return student_N - teacher_N


def forward_kl(teacher_NK: Tensor, student_NK: Tensor, tail: str = "drop") -> Tensor:
    """KL(teacher || student) over the teacher's top k, [N]; differentiable in the student.

    Args:
        teacher_NK: log-probs of the teacher's k most probable tokens.
        student_NK: the student's log-probs of the same tokens; with `tail="drop"` any logits do.
        tail: "drop" renormalizes both over the k tokens (EOPD); "keep" compares k + 1 buckets, the
            last one being all other tokens.
    """
    if tail == "drop":
        teacher_NK, student_NK = teacher_NK.log_softmax(-1), student_NK.log_softmax(-1)
    total = _divergence(teacher_NK, student_NK).sum(-1)
    if tail == "keep":
        total = total + _tail_divergence(teacher_NK, student_NK)
    return total


def _divergence(teacher: Tensor, student: Tensor) -> Tensor:
    return teacher.exp() * (teacher - student)


def _tail_divergence(teacher_NK: Tensor, student_NK: Tensor) -> Tensor:
    """t log(t / s) of the two tails.

    s is 1 minus the student's top k, which can't tell a tail smaller than rounding from none: it is
    held at SMALLEST_TAIL, where its gradient ends.
    """
    tail = tail_mass(teacher_NK)
    student = (1.0 - student_NK.exp().sum(-1)).clamp_min(SMALLEST_TAIL)
    return torch.special.xlogy(tail, tail) - tail * student.log()


def dense_forward_kl(
    logits_NV: Tensor, ids_NK: Tensor, teacher_NK: Tensor, tail: str, temperature: float = 1.0
) -> Tensor:
    """`forward_kl` from whole, unsharded logits of the student, [N]: what the sharded one equals.

    Args:
        ids_NK: vocabulary ids of the teacher's k most probable tokens.
        teacher_NK: their log-probs.
    """
    student_NV = (logits_NV / temperature).log_softmax(-1)
    return forward_kl(teacher_NK, student_NV.gather(-1, ids_NK), tail)
