"""A teacher beside the data of `step_loss`, and what must come of it, token by token in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from spader_slime.algorithms.teacher_scores import TeacherScores, no_scores
from support.lessons import gated, taught
from support.slow_distillation import slow_forward_kl
from support.step_loss import VOCAB, Data, logits_of

TOP_K = 4
LOST, NOT_ASKED = 1, 7  # samples
THRESHOLD = 0.9  # nats


def source_scores(data: Data, threshold: float) -> list[TeacherScores]:
    """What every sample's scores must be when they reach the trainer."""
    found = []
    for i, (tokens, mask) in enumerate(zip(data["tokens"], data["loss_masks"], strict=True)):
        said = taught(tokens, mask, VOCAB, TOP_K, 50 + i)
        if i in (LOST, NOT_ASKED):
            said = no_scores(len(mask), TOP_K)
        found.append(gated(said, threshold))
    return found


def teacher_log_probs(data: Data, scores: list[TeacherScores]) -> list[Tensor]:
    """As slime logs them: the student's own where the teacher said nothing."""
    pairs = zip(data["log_probs"], scores, strict=True)
    return [torch.where(said.weight_T > 0, said.log_probs_T, own) for own, said in pairs]


def reverse_kl(data: Data, scores: list[TeacherScores]) -> list[Tensor]:
    """Token by token, 0 where the teacher said nothing."""
    pairs = zip(data["log_probs"], teacher_log_probs(data, scores), strict=True)
    return [own - teacher for own, teacher in pairs]


def subtracted(data: Data, scores: list[TeacherScores], coef: float) -> Data:
    """The data with the reverse KL in the advantages."""
    rewards = []
    for values_T2, gap_T in zip(data["rewards"], reverse_kl(data, scores), strict=True):
        changed = values_T2.clone()
        changed[:, 0] -= coef * gap_T
        rewards.append(changed)
    return data | {"rewards": rewards}


def slow_lesson(
    data: Data,
    table: Tensor,
    samples: list[int],
    aggregate: str,
    scores: list[TeacherScores],
    tail: str,
) -> tuple[Tensor, dict[str, float]]:
    """Forward KL of one optimizer step, token by token, and what is reported."""
    spans = [
        (i, [t for t in range(*span) if data["loss_masks"][i][t]])
        for i in samples
        for span in data["spans"][i]
    ]
    steps = [(i, trained) for i, trained in spans if trained]
    total, gates = torch.zeros((), dtype=table.dtype), 0.0
    for i, trained in steps:
        logits_TV = logits_of(data, table, i)[-data["response_lengths"][i] - 1 : -1]
        for t in trained:
            share = 1 / float(data["rollout_mask_sums"][i]) / len(samples)
            if aggregate == "step":
                share = 1 / len(trained) / len(steps)
            if scores[i].gate_T[t]:
                total = total + share * slow_forward_kl(logits_TV[t], scores[i], t, tail)
                gates += share
    return total, {"forward_kl": total.item(), "gated_share": gates}
