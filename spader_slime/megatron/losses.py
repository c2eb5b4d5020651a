"""The policy loss, on flat token vectors.

Legend: N token where the policy acted, any trajectory. Every sum over tokens uses `weights_N`,
which carry the aggregation: `token_weights` gives each token 1 / (trajectories x the trajectory's
trainable tokens), so that a plain sum is the mean over trajectories of the mean over tokens;
`BatchSteps.weights_N` over the number of decision steps makes it the mean over decision steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from spader_slime.megatron.decision_steps import BatchSteps, step_mean


@dataclass(frozen=True)
class LossTokens:
    """What the loss knows of each token, besides what the model says. All float32 [N]."""

    advantages_N: Tensor
    old_N: Tensor  # log-probabilities under the policy that sampled
    weights_N: Tensor
    ref_N: Tensor | None = None  # log-probabilities under the frozen reference
    steps: BatchSteps | None = None  # needed for `ratio: step`


@dataclass(frozen=True)
class LossOptions:
    """Coefficients; see `LearnerSettings`."""

    clip_low: float = 0.2
    clip_high: float = 0.28
    dual_clip: float | None = None
    kl_coef: float = 0.0
    entropy_coef: float = 0.0
    ratio: str = "token"


def policy_loss(
    log_probs_N: Tensor, entropy_N: Tensor, tokens: LossTokens, options: LossOptions
) -> tuple[Tensor, dict[str, Tensor]]:
    """Clipped policy gradient plus KL penalty minus entropy bonus.

    With `ratio: step` every token of a decision step has the ratio exp(mean log-ratio of the step),
    which is clipped as a token's own would be.

    Returns:
        The loss (scalar, differentiable) and detached scalars that add up over micro-batches.
    """
    log_ratio = log_probs_N - tokens.old_N
    if options.ratio == "step":
        assert tokens.steps is not None, "no decision steps for a ratio by step"
        log_ratio = step_mean(log_ratio, tokens.steps, None)
    surrogate, clipped = clipped_surrogate(log_ratio, tokens.advantages_N, options)
    weigh = tokens.weights_N.dot
    loss = pg_loss = weigh(surrogate)
    metrics = {
        "pg_loss": pg_loss.detach(),
        "entropy": weigh(entropy_N.detach()),
        "clip_fraction": weigh(clipped.to(log_ratio.dtype)),
        "approx_kl": weigh(-log_ratio.detach()),
    }
    if tokens.ref_N is not None:
        penalty = weigh(k3_kl(log_probs_N, tokens.ref_N))
        loss = loss + options.kl_coef * penalty
        metrics["kl"] = penalty.detach()
    if options.entropy_coef:
        loss = loss - options.entropy_coef * weigh(entropy_N)
    metrics["loss"] = loss.detach()
    return loss, metrics


def clipped_surrogate(
    log_ratio_N: Tensor, advantages_N: Tensor, options: LossOptions
) -> tuple[Tensor, Tensor]:
    """PPO's per-token loss with bounds [1 - low, 1 + high], and where the clipped side is active.

    With ratio r and advantage A: max(-A r, -A clip(r, 1 - low, 1 + high)); with `dual_clip` c, the
    loss of a negative advantage is at most -A c.
    """
    ratio = log_ratio_N.exp()
    plain = -advantages_N * ratio
    bounded = -advantages_N * ratio.clamp(1.0 - options.clip_low, 1.0 + options.clip_high)
    loss = torch.maximum(plain, bounded)
    if options.dual_clip is not None:
        capped = torch.minimum(loss, -advantages_N * options.dual_clip)
        loss = torch.where(advantages_N < 0, capped, loss)
    return loss, (bounded > plain).detach()


def k3_kl(log_probs_N: Tensor, ref_N: Tensor) -> Tensor:
    """Schulman's k3 estimate of KL(policy, reference) per token: exp(d) - 1 - d, d = ref - policy.

    Never negative; unbiased when the tokens were sampled from the policy.
    """
    difference = ref_N - log_probs_N
    return difference.expm1() - difference


def token_weights(counts_N: Tensor, trajectories: float) -> Tensor:
    """1 / (trajectories x count) per token, where count is its trajectory's trainable tokens."""
    return 1.0 / (counts_N.clamp_min(1.0) * trajectories)
