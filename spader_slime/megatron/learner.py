"""The trainer: real Megatron-core, one `Learner` in every process of the tp x pp x dp grid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import Tensor

from spader_slime.algorithms.teacher_scores import TeacherScores
from spader_slime.errors import DataError
from spader_slime.megatron import checkpoint, grid
from spader_slime.megatron.batching import (
    RolloutData,
    Trajectory,
    read_trajectories,
    split_minibatches,
)
from spader_slime.megatron.decision_steps import steps_of
from spader_slime.megatron.distill import scores_of
from spader_slime.megatron.export import write_hf
from spader_slime.megatron.model import build_model
from spader_slime.megatron.objectives import (
    GAP_PARTS,
    LESSON_PARTS,
    LOSS_PARTS,
    clipped_policy_gradient,
    likelihood,
    summary,
)
from spader_slime.megatron.optimizer import Optimizer
from spader_slime.megatron.passes import Passes, add_up
from spader_slime.megatron.placement import gather_hf, load_hf, place
from spader_slime.megatron.settings import LearnerSettings, check_settings
from spader_slime.megatron.shape import ModelConfig


class Learner:
    """A policy in training.

    Every method has to be called on every process of the grid. `rollout_data` has slime's keys
    (lists, one entry per trajectory) and holds the trajectories of this data-parallel rank; metrics
    cover all ranks and are the same on all processes.

    Args:
        settings: see `LearnerSettings`.
        hf_dir: Hugging Face folder to start from; its config and tokenizer are exported again.
        where: this process in the grid; the only one by default.

    Raises:
        CheckpointError: the folder can't be read or holds an unsupported model.
        ConfigError: settings that contradict each other.
    """

    def __init__(
        self, settings: LearnerSettings, hf_dir: str | Path, where: grid.Place | None = None
    ) -> None:
        check_settings(settings)
        self.settings, self.hf_dir = settings, Path(hf_dir)
        self.config = ModelConfig.from_hf(hf_dir)
        grid.start_grid(settings, where or grid.Place())
        try:
            self._set_up()
        except BaseException:
            grid.stop_grid()
            raise

    def _set_up(self) -> None:
        self.policy = self._load()
        self.placed = place(self.policy.model, self.config)
        sharded = {p.local: p.sharded for p in self.placed}
        self.optimizer = Optimizer(self.policy.model, self.settings, sharded.__getitem__)
        self.reference = self._load() if self.settings.kl_coef > 0 else None

    def _load(self) -> Passes:
        model = build_model(self.config, self.settings)
        load_hf(place(model, self.config), self.config, self.hf_dir)
        return Passes(model, self.settings, self.config.vocab)

    def log_probs(self, rollout_data: RolloutData) -> list[Tensor]:
        """Log-probabilities (nats, at the rollout temperature) under the current policy.

        Returns:
            One float32 [response length] per trajectory of this data-parallel rank, on the CPU;
            0.0 where the mask is 0.
        """
        return self._score(self.policy, rollout_data)

    def reference_log_probs(self, rollout_data: RolloutData) -> list[Tensor]:
        """The same under the frozen reference, which exists only with `kl_coef` above 0."""
        assert self.reference is not None, "no reference model without a KL coefficient"
        return self._score(self.reference, rollout_data)

    def _score(self, passes: Passes, data: RolloutData) -> list[Tensor]:
        return passes.score(read_trajectories(data), [int(n) for n in data["response_lengths"]])

    def train(self, rollout_data: RolloutData) -> dict[str, float]:
        """One rollout: `minibatches` optimizer steps of the clipped policy gradient.

        Reads tokens, response_lengths, loss_masks, advantages ([response length] each),
        rollout_log_probs, and, where present, rollout_mask_sums, log_probs, ref_log_probs.
        A minibatch is made of the k-th part of every data-parallel rank's trajectories. The loss is
        the mean over its trajectories of the mean over their tokens; a trajectory without trainable
        tokens counts as zero, as in slime. With `aggregate: step` it is the mean over all decision
        steps of the mean over their tokens. Either step option needs `returns` as the advantage
        hook leaves them (`attach_steps`), distillation `teacher_log_probs` (`apply_teacher`).
        Before the last pipeline stage only tokens, response_lengths and loss_masks are needed.

        Returns:
            Means over the optimizer steps of loss, pg_loss, entropy, clip_fraction, approx_kl, kl,
            grad_norm, lr; `skipped` steps; `tokens` trained on; `logprob_gap` and
            `logprob_gap_max`: |train - rollout| over the first minibatch before weights move. With
            a teacher also `gated_share`, and `gated_forward_kl` and `gated_entropy` of the student.

        Raises:
            DataError: a needed key is missing or lengths disagree.
        """
        data = self._complete(rollout_data)
        parts = split_minibatches(read_trajectories(data), self.settings.minibatches)
        scores = self._scores(data)
        names = (*LOSS_PARTS, *GAP_PARTS, *(LESSON_PARTS if "teacher_log_probs" in data else ()))
        steps = []
        for part in parts:
            real = [t for t in part if t is not None]
            counts = [len(part), len(real), self._decision_steps(real, data)]
            everywhere, trainable, decision_steps = grid.over_replicas(counts)
            if trainable:
                objective = clipped_policy_gradient(self.settings, data, everywhere, decision_steps)
                reports = self.policy.gradients(part, objective, scores)
                measured = add_up(reports, names, ("gap_max",))
                steps.append({**measured, **self.optimizer.step()})
        return summary(steps)

    def _scores(self, data: dict[str, Any]) -> list[TeacherScores] | None:
        """A teacher's, on the last stage, where there are any."""
        taught = "teacher_log_probs" in data and grid.is_last_stage()
        return scores_of(data) if taught else None

    def _decision_steps(self, part: Sequence[Trajectory], data: RolloutData) -> int:
        """How many there are in `part`; 0 where nobody needs to know."""
        if not (self.settings.needs_steps and grid.is_last_stage()):
            return 0
        samples = steps_of(data.get("returns"))
        return sum(len(samples[t.index].counts_S) for t in part)

    def _complete(self, rollout_data: RolloutData) -> dict[str, Any]:
        """Add the log-probabilities that the loss needs and the data lack."""
        data = dict(rollout_data)
        for key in ("advantages", "rollout_log_probs") if grid.is_last_stage() else ():
            if key not in data:
                raise DataError(f"rollout data lack {key!r}")
        if self.settings.old_log_probs == "rollout":
            data["log_probs"] = data.get("rollout_log_probs")
        elif data.get("log_probs") is None and self.settings.minibatches > 1:
            data["log_probs"] = self.log_probs(data)
        if self.reference is not None and data.get("ref_log_probs") is None:
            data["ref_log_probs"] = self.reference_log_probs(data)
        return data

    def supervised(self, batch: RolloutData, aggregate: str = "token") -> dict[str, float]:
        """One optimizer step of next-token cross-entropy on the tokens with loss mask 1.

        Args:
            batch: tokens, response_lengths, loss_masks.
            aggregate: "token": mean over all masked tokens; "trajectory": mean over trajectories
                of their token means.

        Returns:
            loss (nats), entropy, tokens, grad_norm, lr, skipped.
        """
        part = [t for t in read_trajectories(batch) if t is not None]
        tokens = sum(len(t.acted_A) for t in part)
        total, trajectories = grid.over_replicas([tokens, len(part)])
        if not total:
            raise DataError("no token to learn from: every loss mask is zero")

        per_trajectory = trajectories if aggregate == "trajectory" else None
        reports = self.policy.gradients(part, likelihood(total, per_trajectory))
        measured = add_up(reports, ("loss", "entropy"))
        return {**measured, "tokens": total, **self.optimizer.step()}

    def export_hf(self, folder: str | Path) -> Path:
        """Write the policy as a Hugging Face folder (world rank 0 writes), whole or not at all."""
        tensors = gather_hf(self.placed, self.config)
        if dist.get_rank() == 0:
            write_hf(folder, self.hf_dir, tensors)
        dist.barrier()
        return Path(folder)

    def save(
        self, folder: str | Path, iteration: int, state: dict[str, Any], keep: int | None = None
    ) -> Path:
        """Write `folder/iter_NNNNNNN`, whole or not at all.

        Args:
            folder: the run's checkpoint folder.
            iteration: number of the finished iteration.
            state: the caller's own, JSON values only.
            keep: how many of the newest checkpoints stay; None: all.
        """
        return checkpoint.save(self, Path(folder), iteration, state, keep)

    def load(self, folder: str | Path) -> checkpoint.Restored:
        """Restore weights, optimizer and random state from `folder/iter_NNNNNNN`, or from the
        newest complete checkpoint in `folder`; the process grid may differ.

        Raises:
            CheckpointError: nothing complete there, or another model.
        """
        return checkpoint.load(self, Path(folder))

    def close(self) -> None:
        """Leave the grid."""
        grid.stop_grid()
