"""What the trainer minimizes, and what it reports of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from spader_slime.megatron.batching import MicroBatch
from spader_slime.megatron.decision_steps import steps_of
from spader_slime.megatron.distill import Lesson
from spader_slime.megatron.losses import LossOptions, LossTokens, policy_loss, token_weights
from spader_slime.megatron.passes import Loss
from spader_slime.megatron.settings import LearnerSettings

LOSS_PARTS = ("loss", "pg_loss", "entropy", "clip_fraction", "approx_kl", "kl")
LESSON_PARTS = ("forward_kl", "gated_share", "gated_entropy")
GAP_PARTS = ("gap_sum", "gap_tokens")


def clipped_policy_gradient(
    settings: LearnerSettings, data: Mapping[str, Any], trajectories: float, steps: float = 0.0
) -> Loss:
    """The policy loss of a minibatch of `trajectories`, over all data-parallel ranks.

    Args:
        data: `rollout_data`; the old policy is `log_probs`, or without them the current one.
        steps: decision steps of the minibatch, over all ranks; read with `aggregate: step`.
    """
    options = LossOptions(**{f: getattr(settings, f) for f in LossOptions.__dataclass_fields__})
    old, ref = data.get("log_probs"), data.get("ref_log_probs")

    def loss(
        batch: MicroBatch, log_probs_N: Tensor, entropy_N: Tensor, lesson: Lesson | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        own = batch.steps(steps_of(data.get("returns"))) if settings.needs_steps else None
        weights_N = token_weights(batch.counts(), trajectories)
        if own is not None and settings.aggregate == "step":
            weights_N = own.weights_N / max(steps, 1.0)
        tokens = LossTokens(
            advantages_N=batch.pick(data["advantages"]),
            old_N=log_probs_N.detach() if old is None else batch.pick(old),
            weights_N=weights_N,
            ref_N=batch.pick(ref) if ref is not None and options.kl_coef > 0 else None,
            steps=own,
        )
        value, report = policy_loss(log_probs_N, entropy_N, tokens, options)
        if lesson is not None:
            report |= _lesson_report(lesson, log_probs_N, entropy_N, weights_N, settings.tail)
            value = value + settings.forward_kl_coef * report["forward_kl"]
            report |= {"forward_kl": report["forward_kl"].detach(), "loss": value.detach()}
        gap = (log_probs_N.detach() - batch.pick(data["rollout_log_probs"])).abs()
        report |= {"gap_sum": gap.sum(), "gap_max": gap.max()}
        report["gap_tokens"] = gap.new_tensor(len(gap))
        return value, report

    return loss


def _lesson_report(
    lesson: Lesson, log_probs_N: Tensor, entropy_N: Tensor, weights_N: Tensor, tail: str
) -> dict[str, Tensor]:
    """`LESSON_PARTS`, weighted as the loss is; `forward_kl` is differentiable."""
    gated_N = weights_N * lesson.gate_N
    return {
        "forward_kl": weights_N.dot(lesson.forward_kl(log_probs_N, tail)),
        "gated_share": gated_N.sum(),
        "gated_entropy": gated_N.dot(entropy_N.detach()),
    }


def likelihood(tokens: float, trajectories: float | None) -> Loss:
    """Next-token cross-entropy: mean over `tokens`, or over `trajectories` of their token means."""

    def loss(
        batch: MicroBatch, log_probs_N: Tensor, entropy_N: Tensor, lesson: Lesson | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        weights = log_probs_N.new_full(log_probs_N.shape, 1.0 / tokens)
        if trajectories is not None:
            weights = token_weights(batch.counts(), trajectories)
        value = -weights.dot(log_probs_N)
        return value, {"loss": value.detach(), "entropy": weights.dot(entropy_N.detach())}

    return loss


def summary(steps: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """One rollout's metrics from those of its optimizer steps."""
    if not steps:
        return {"skipped": 0.0, "tokens": 0.0, "steps": 0.0}
    first, names = steps[0], (*LOSS_PARTS, "grad_norm", "lr")
    means = {name: sum(s[name] for s in steps) / len(steps) for name in names}
    return {
        **means,
        "skipped": sum(s["skipped"] for s in steps),
        "steps": float(len(steps)),
        "tokens": sum(s["gap_tokens"] for s in steps),
        "logprob_gap": first["gap_sum"] / max(first["gap_tokens"], 1.0),
        "logprob_gap_max": first["gap_max"],
        **_lessons(steps),
    }


def _lessons(steps: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Share of gated tokens; forward KL and entropy of a gated token. Empty without a teacher."""
    if "gated_share" not in steps[0]:
        return {}
    means = {name: sum(s[name] for s in steps) / len(steps) for name in LESSON_PARTS}
    share = max(means["gated_share"], 1e-9)
    return {
        "gated_share": means["gated_share"],
        "gated_forward_kl": means["forward_kl"] / share,
        "gated_entropy": means["gated_entropy"] / share,
    }
