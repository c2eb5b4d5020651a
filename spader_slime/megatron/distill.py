"""A teacher's scores on the trainer: out of their tensor, into the advantage and into the loss.

Legend: T response token of one sample that this context-parallel rank owns, N such token of any
sample of a micro-batch, M gated token among them, K the teacher's most probable tokens, V this
rank's share of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from spader_slime.algorithms.distillation import reverse_kl
from spader_slime.algorithms.teacher_scores import TeacherScores, unpack
from spader_slime.config import DistillationConfig
from spader_slime.errors import DataError
from spader_slime.megatron.forward_kl import GatedTokens, forward_kl, take_student
from spader_slime.megatron.groups import tensor_group
from spader_slime.megatron.side_channel import attach, attached

NAME = "teacher_scores"


def apply_teacher(data: dict[str, Any], config: DistillationConfig, old: str) -> None:
    """Unpack the teacher's scores, and subtract the reverse KL from the advantages.

    Does nothing without a teacher in `config`.
    `teacher_log_probs` becomes one number per token, as hosts log and use it: the teacher's
    log-prob, or the student's own where the teacher said nothing (a reverse KL of zero). The other
    scores ride on these tensors to the loss. With `task_reward: false` the advantages are replaced.

    Args:
        data: `rollout_data`: teacher_log_probs ([T, 4 + 2 K] per sample), advantages.
        old: key of the student's log-probs; rollout_log_probs where it is missing.

    Raises:
        DataError: samples without a teacher's scores.
    """
    if not config.active:
        return
    if "teacher_log_probs" not in data:
        raise DataError(
            "no teacher_log_probs: the samples were not generated with spader.distillation.urls"
        )
    scores = [unpack(packed) for packed in data["teacher_log_probs"]]
    student = data.get(old) or data["rollout_log_probs"]
    pairs = list(zip(scores, student, strict=True))
    teacher = [
        torch.where(s.weight_T > 0, s.log_probs_T, own.to(s.log_probs_T)) for s, own in pairs
    ]
    attach(teacher, NAME, scores)
    data["teacher_log_probs"] = teacher
    scale = config.reverse_kl_coef if config.reverse == "hook" else 0.0
    data["advantages"] = [
        values_T * config.task_reward - scale * reverse_kl(own.to(values_T), said.to(values_T))
        for values_T, own, said in zip(data["advantages"], student, teacher, strict=True)
    ]


def scores_of(data: Mapping[str, Any]) -> list[TeacherScores]:
    """What `apply_teacher` left on the tensors of `teacher_log_probs`.

    Raises:
        DataError: nothing.
    """
    return attached(data.get("teacher_log_probs"), NAME)


@dataclass(frozen=True)
class Lesson:
    """What a micro-batch is to learn from the teacher beside its advantages.

    Attributes:
        gate_N: 1.0 where the forward KL applies.
        tokens: the gated ones.
        student_MK: the student's logits there, of `take_student`.
    """

    gate_N: Tensor
    tokens: GatedTokens
    student_MK: Tensor

    def forward_kl(self, log_probs_N: Tensor | None, tail: str) -> Tensor:
        """KL(teacher || student) in nats, [N], 0 where the gate is shut; differentiable.

        Args:
            log_probs_N: of the sampled tokens under the student; read with `tail="keep"` only.
        """
        open_N = self.gate_N > 0
        own_M = self.student_MK[:, -1] if log_probs_N is None else log_probs_N[open_N]
        values_M = forward_kl(self.student_MK, self.tokens, own_M, tail)
        whole_N = values_M.new_zeros(self.gate_N.shape)
        return whole_N.masked_scatter(open_N, values_M)


def take_lesson(
    logits: Tensor,
    places: tuple[Tensor, Tensor],
    scores: Sequence[TeacherScores],
    temperature: float,
) -> tuple[Tensor, Lesson]:
    """Look up the student's logits at the teacher's tokens; see `megatron.forward_kl`.

    Args:
        logits: float32 [N, V], or [1, N, V] as slime hands them over, with any further rows.
        places: of every response token, in the order of `scores`: its row, and its id. int64 [N].
        scores: one per sample.

    Returns:
        The logits to go on with, in the same shape, and the lesson.
    """
    device, shape = logits.device, logits.shape
    gate_N, ids_NK, said_NK = (
        torch.cat([getattr(one, name) for one in scores]).to(device)
        for name in ("gate_T", "ids_TK", "log_probs_TK")
    )
    open_N, (rows_N, sampled_N) = gate_N > 0, places
    tokens = GatedTokens(rows_N[open_N], sampled_N[open_N], ids_NK[open_N], said_NK[open_N])
    group = tensor_group()
    taken, student_MK = take_student(logits.view(shape[-2:]), tokens, group, temperature)
    return taken.view(shape), Lesson(gate_N, tokens, student_MK)
