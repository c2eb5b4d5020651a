"""What the model is asked for: log-probabilities, or gradients of a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from megatron.core import parallel_state
from torch import Tensor

from spader_slime.algorithms.teacher_scores import TeacherScores
from spader_slime.megatron import grid
from spader_slime.megatron.batching import MicroBatch, Trajectory, micro_batches
from spader_slime.megatron.cpu import device
from spader_slime.megatron.distill import Lesson, take_lesson
from spader_slime.megatron.model import PolicyModel
from spader_slime.megatron.settings import LearnerSettings
from spader_slime.megatron.steps import run
from spader_slime.megatron.vocab_parallel import log_probs_and_entropy

Loss = Callable[[MicroBatch, Tensor, Tensor, Lesson | None], tuple[Tensor, dict[str, Tensor]]]
Trajectories = Sequence[Trajectory | None]


class Passes:
    """Runs one model over the trajectories of this data-parallel rank.

    Args:
        vocab: true vocabulary size.
    """

    def __init__(self, model: PolicyModel, settings: LearnerSettings, vocab: int) -> None:
        self.model, self.settings, self.vocab = model, settings, vocab

    def score(self, trajectories: Trajectories, lengths: Sequence[int]) -> list[Tensor]:
        """Log-probability of every acted token, 0.0 elsewhere; on every process of the replica.

        Returns:
            One float32 [response length] per trajectory.
        """

        def keep(batch: MicroBatch, logits: Tensor) -> tuple[Tensor, Tensor]:
            log_probs, _ = self._measure(batch, logits, with_entropy=False)
            return log_probs.new_zeros(()), log_probs

        batches = self._batches(trajectories)
        results = run(self.model, batches, keep, train=False)
        everything = torch.zeros(sum(lengths), device=device())
        parts = everything.split(list(lengths))
        if grid.reports():
            for batch, flat in zip(batches, results, strict=True):
                pieces = flat.split(batch.sizes().tolist())
                for item, piece in zip(batch.trajectories, pieces, strict=True):
                    parts[item.index][item.acted_A.to(piece.device)] = piece
        replica = parallel_state.get_model_parallel_group()
        return list(grid.sum_over(replica, everything).cpu().split(list(lengths)))

    def gradients(
        self, trajectories: Trajectories, loss: Loss, scores: Sequence[TeacherScores] | None = None
    ) -> list[dict[str, Tensor]]:
        """Add the gradients of `loss` to the parameters.

        Args:
            loss: from a micro-batch, its log-probabilities and entropies (both [N]) and its lesson
                to a loss that adds up over micro-batches and data-parallel ranks, and what to
                report.
            scores: a teacher's, per trajectory; None: there are no lessons.

        Returns:
            What `loss` reported, on the one process per replica that reports; else empty.
        """

        def consume(batch: MicroBatch, logits: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            lesson = None
            if scores is not None:
                places = torch.arange(len(logits), device=logits.device), batch.targets_N
                own, temperature = batch.lessons(scores), self.settings.temperature
                logits, lesson = take_lesson(logits, places, own, temperature)
            return loss(batch, *self._measure(batch, logits, with_entropy=True), lesson)

        results = run(self.model, self._batches(trajectories), consume, train=True)
        return results if grid.reports() else []

    def _measure(
        self, batch: MicroBatch, logits: Tensor, with_entropy: bool
    ) -> tuple[Tensor, Tensor]:
        return log_probs_and_entropy(
            logits,
            batch.targets_N,
            parallel_state.get_tensor_model_parallel_group(),
            self.vocab,
            self.settings.temperature,
            with_entropy,
        )

    def _batches(self, trajectories: Trajectories) -> list[MicroBatch]:
        return micro_batches(trajectories, self.settings.micro_tokens, device())


def add_up(
    reports: Iterable[Mapping[str, Tensor]], sums: Sequence[str], maxima: Sequence[str] = ()
) -> dict[str, float]:
    """Total of every reported number over micro-batches and processes, equal on all processes."""
    reports = list(reports)
    totals = _vector(reports, sums, sum)
    tops = _vector(reports, maxima, max)
    grid.sum_over(None, totals)
    if maxima:
        grid.max_over(None, tops)
    values = [*totals.tolist(), *tops.tolist()]
    return dict(zip([*sums, *maxima], values, strict=True))


def _vector(
    reports: Sequence[Mapping[str, Tensor]], names: Sequence[str], merge: Callable[[Any], Any]
) -> Tensor:
    columns = [[float(r[name]) for r in reports if name in r] or [0.0] for name in names]
    return torch.tensor([merge(c) for c in columns], dtype=torch.float64, device=device())
