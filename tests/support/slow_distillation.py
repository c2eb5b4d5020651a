"""The forward KL and the policy loss of single tokens, from their definitions, in float64."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from spader_slime.algorithms.teacher_scores import TeacherScores


def slow_forward_kl(logits_V: Tensor, said: TeacherScores, token: int, tail: str) -> Tensor:
    """KL(teacher || student) at one token, differentiable; `logits_V` over the temperature."""
    student_V = logits_V.softmax(-1)
    pairs = [
        (math.exp(float(p)), student_V[int(i)])
        for i, p in zip(said.ids_TK[token], said.log_probs_TK[token], strict=True)
    ]
    teacher, student = sum(p for p, _ in pairs), torch.stack([q for _, q in pairs]).sum()
    if tail == "drop":
        pairs = [(p / teacher, q / student) for p, q in pairs]
    elif teacher < 1:
        pairs.append((1 - teacher, 1 - student))
    return torch.stack([p * (math.log(p) - q.log()) for p, q in pairs]).sum()


def slow_surrogate(
    log_ratio: Tensor, advantage: float, clip: tuple[float, float], dual_clip: float | None = None
) -> Tensor:
    """Minus the clipped objective."""
    ratio = log_ratio.exp()
    bounded = ratio.clamp(1 - clip[0], 1 + clip[1])
    objective = torch.minimum(ratio * advantage, bounded * advantage)
    if dual_clip is not None and advantage < 0:
        objective = objective.clamp_min(dual_clip * advantage)
    return -objective
