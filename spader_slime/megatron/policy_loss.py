"""The policy loss with step options, in slime's terms: what `hooks.policy_loss` adds to a host.

Legend: N response token of any sample of a micro-batch that this context-parallel rank owns.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from spader_slime.config import DistillationConfig, LossConfig
from spader_slime.megatron.decision_steps import BatchSteps, step_mean
from spader_slime.megatron.distill import Lesson
from spader_slime.megatron.losses import LossOptions, clipped_surrogate

Reducer = Callable[[Tensor], Tensor]
Divergence = Callable[[Tensor, Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class PolicyTokens:
    """What the loss knows of each token. Log-probs and entropies in nats; all float32 [N].

    Attributes:
        log_probs_N: under the policy in training; differentiable.
        entropy_N: of the policy in training.
        old_N: log-probs under the policy that the ratio compares with.
        advantages_N: of the tokens.
        rollout_N: log-probs under the engine that sampled.
        ref_N: log-probs under the frozen reference.
    """

    log_probs_N: Tensor
    entropy_N: Tensor
    old_N: Tensor
    advantages_N: Tensor
    rollout_N: Tensor | None
    ref_N: Tensor | None


def policy_tokens(
    args: Namespace, batch: dict[str, Any], log_probs: list[Tensor], entropy: list[Tensor]
) -> PolicyTokens:
    """One behind the other, from slime's lists with one entry per sample."""
    old = batch["rollout_log_probs"] if args.use_rollout_logprobs else batch.get("log_probs")
    rollout = batch.get("rollout_log_probs")
    return PolicyTokens(
        log_probs_N=torch.cat(log_probs),
        entropy_N=torch.cat(entropy),
        old_N=torch.cat(old) if old else torch.cat(log_probs).detach(),
        advantages_N=torch.cat(batch["advantages"]),
        rollout_N=torch.cat(rollout) if rollout else None,
        ref_N=torch.cat(batch["ref_log_probs"]) if args.use_kl_loss else None,
    )


def step_policy_loss(
    args: Namespace,
    tokens: PolicyTokens,
    steps: BatchSteps | None,
    options: LossConfig,
    mean: Reducer,
    group: dist.ProcessGroup | None,
    divergence: Divergence,
) -> tuple[Tensor, dict[str, Tensor]]:
    """slime's policy loss with a ratio or an aggregate by decision step.

    With `ratio: step` every token of a decision step has the log-ratio (1 / trained tokens of the
    step) * sum of log-prob - old log-prob over them, wherever they lie, and is clipped by it. With
    `aggregate: step` all terms and metrics are means over decision steps of means over tokens.

    Args:
        args: slime's eps_clip, eps_clip_high, eps_clip_c, entropy_coef, use_kl_loss, kl_loss_coef,
            use_unbiased_kl, use_rollout_logprobs.
        steps: needed with a step option.
        mean: of `reducer`.
        group: context-parallel ranks, which all call this.
        divergence: estimate of the KL from log-probs, those of the reference, and a ratio or None.

    Returns:
        The loss, which adds up over ranks and micro-batches, and metrics under slime's names.
    """
    log_ratio_N = tokens.log_probs_N - tokens.old_N
    if options.ratio == "step":
        assert steps is not None, "no decision steps for a ratio by step"
        log_ratio_N = step_mean(log_ratio_N, steps, group)
    clip = LossOptions(args.eps_clip, args.eps_clip_high, args.eps_clip_c)
    surrogate_N, clipped_N = clipped_surrogate(log_ratio_N, tokens.advantages_N, clip)
    loss, entropy = mean(surrogate_N), mean(tokens.entropy_N)
    metrics = {
        "pg_loss": loss,
        "entropy_loss": entropy,
        "pg_clipfrac": mean(clipped_N.float()),
        "ppo_kl": mean(-log_ratio_N),
    }
    loss = loss - args.entropy_coef * entropy
    if tokens.rollout_N is not None:
        scored_N = tokens.log_probs_N if args.use_rollout_logprobs else tokens.old_N
        metrics["train_rollout_logprob_abs_diff"] = mean((scored_N - tokens.rollout_N).abs())
    if tokens.ref_N is not None:
        ratio_N = (tokens.log_probs_N - tokens.old_N).exp() if args.use_unbiased_kl else None
        metrics["kl_loss"] = mean(divergence(tokens.log_probs_N, tokens.ref_N, ratio_N))
        loss = loss + args.kl_loss_coef * metrics["kl_loss"]
    return loss, {name: value.detach() for name, value in {"loss": loss, **metrics}.items()}


def reducer(options: LossConfig, steps: BatchSteps | None, mean: Reducer) -> Reducer:
    """How values of tokens become one: slime's `sum_of_sample_mean`, or a mean over steps."""
    if options.aggregate != "step":
        return mean
    assert steps is not None, "no decision steps for an aggregate by step"
    return partial(_weighted_sum, steps.weights_N)


def add_forward_kl(
    loss: Tensor,
    report: dict[str, Tensor],
    lesson: Lesson,
    log_probs_N: Tensor | None,
    config: DistillationConfig,
    mean: Reducer,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The policy loss plus the gated forward KL, which is averaged as all other terms are.

    Args:
        log_probs_N: of the sampled tokens under the policy; read with `tail: keep`.

    Returns:
        The loss, and the report with `forward_kl` and `gated_share`, both over all tokens: their
        quotient is the forward KL of a gated token.
    """
    value = mean(lesson.forward_kl(log_probs_N, config.tail))
    loss = loss + config.forward_kl_coef * value
    added = {"loss": loss, "forward_kl": value, "gated_share": mean(lesson.gate_N)}
    return loss, report | {name: found.detach() for name, found in added.items()}


def _weighted_sum(weights_N: Tensor, values_N: Tensor) -> Tensor:
    return (values_N * weights_N).sum()
