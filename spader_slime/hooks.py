"""The functions that slime calls, by their dotted names. The embedded host calls the same ones.

Each one unpacks what the host hands over, calls the algorithm, and writes the result back.
"""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from typing import Any

import torch

from spader_slime import adapter, metrics, record, runtime
from spader_slime.agent.event_loops import off_loop
from spader_slime.agent.loop import run_episode
from spader_slime.algorithms.credit import assign_credit
from spader_slime.algorithms.spreading import spread_over_tokens, spread_with_steps
from spader_slime.algorithms.zigzag import slice_response
from spader_slime.loss_options import (
    loss_options,
    needs_lesson,
    needs_own_loss,
    needs_steps,
    student_key,
)
from spader_slime.megatron.decision_steps import attach_steps, join, steps_of, weigh_steps
from spader_slime.megatron.distill import apply_teacher, scores_of, take_lesson
from spader_slime.megatron.groups import context_place, parallel_groups
from spader_slime.megatron.policy_loss import (
    add_forward_kl,
    policy_tokens,
    reducer,
    step_policy_loss,
)
from spader_slime.replay import complete_replay
from spader_slime.teaching import ask_teacher, check_teacher, gate_batch


async def generate(
    args: Namespace, sample: Any, sampling_params: dict[str, Any], evaluation: bool = False
) -> Any:
    """--custom-generate-function-path: run, or go on with, one search trajectory.

    Sampled tokens and observations go into `sample` as they come; the episode is stored in
    `sample.metadata["spader"]["episode"]`. Faults of engine and search never raise: they end the
    episode. `sampling_params` is shared by tasks in evaluation and is not changed. With a teacher
    (`spader.distillation.urls`) its scores of the finished trajectory go into
    `sample.teacher_log_probs`; its faults leave the trajectory out of distillation.
    """
    keep_mask = args.partial_rollout and args.mask_offpolicy_in_partial_rollout
    context = runtime.context(args, sample, sampling_params, evaluation)
    episode = record.open_episode(sample, context.prompt_ids, keep_mask)
    record.close_episode(sample, await run_episode(context, episode), evaluation)
    await ask_teacher(args, sample, episode.end, evaluation)
    return sample


async def reward(args: Namespace, samples: Any, **kwargs: Any) -> Any:
    """--custom-rm-path: rewards of a group of peers (--group-rm), or of one evaluated sample.

    Training: the answer reward of every peer (final_weight * F1, or the invalid-format value; 0 for
    a failed episode). Step rewards and advantages (SPADER, section 2) are stored in
    `sample.metadata["spader"]["credit"]`. Evaluation: F1 in [0, 1], 0 for an invalid answer.

    Raises:
        ConfigError: a single sample outside evaluation (--group-rm is missing).
        DataError: the label is not a list of gold answers.
    """
    group = samples if isinstance(samples, list) else [samples]
    record.check_group(samples)
    episodes = [record.episode_of(sample) for sample in group]
    inputs = (episodes, group[0].label, adapter.settings(args), adapter.training_step(args))
    credits = await off_loop(record.shown(episodes), assign_credit, *inputs)
    for sample, credit in zip(group, credits, strict=True):
        record.store_credit(sample, credit)
        if not credit.included:
            complete_replay(args, sample)
    single = group is not samples
    return credits[0].score.f1 if single else [credit.reward for credit in credits]


def post_process_rewards(
    args: Namespace, samples: list[Any]
) -> tuple[list[float], list[torch.Tensor]]:
    """--custom-reward-post-process-path: `(raw_rewards, rewards)` for the trainers.

    `rewards[i]` is a float32 tensor with one advantage per response token: that of the token's
    decision step, 0 on observations. Where the loss has step options it is [T, 2] instead of [T]:
    the second column is the number of the decision step, from 1. Raw rewards are the answer
    rewards, as `reward` returned them. Works on samples loaded from a debug dump. With a teacher
    it also marks which tokens the forward KL applies to.

    Raises:
        DataError: a sample that `reward` never saw.
        ConfigError: step options or distillation with a flag that they don't support.
    """
    if (teacher := adapter.settings(args).distillation).active:
        gate_batch(samples, teacher)
    spread = spread_with_steps if needs_steps(loss_options(args)) else spread_over_tokens
    rewards = []
    for sample in samples:
        credit, spans = record.credit_of(sample), record.episode_of(sample).step_spans
        values = spread(credit.advantages_S, spans, sample.response_length)
        rewards.append(torch.from_numpy(values))
    return [float(sample.reward) for sample in samples], rewards


def compute_advantages(args: Namespace, rollout_data: dict[str, Any]) -> None:
    """--custom-advantage-function-path: per-token advantages of this context-parallel rank.

    Reads `rewards` as `post_process_rewards` made them ([T] or [T, 2] per sample), writes
    `advantages` and `returns` (equal; float32, as long as the rank's own log-probs), and puts the
    answer rewards back as scalars in `rewards`, so that they are logged as such. Decision steps,
    where the loss needs them, ride on the tensors of `returns`. With a teacher the reverse KL is
    subtracted, and `teacher_log_probs` gets the form that slime logs (`megatron/distill.py`).
    """
    (rank, size), (_, data_group) = context_place(), parallel_groups()
    lengths = zip(rollout_data["total_lengths"], rollout_data["response_lengths"], strict=True)
    device, raw = rollout_data["tokens"][0].device, rollout_data["raw_reward"]
    values = [v if v.dim() == 1 else v[:, 0].contiguous() for v in rollout_data["rewards"]]
    rollout_data["advantages"] = [
        slice_response(values_T, total, response, rank, size).to(device)
        for values_T, (total, response) in zip(values, lengths, strict=True)
    ]
    apply_teacher(rollout_data, adapter.settings(args).distillation, student_key(args))
    rollout_data["returns"] = [values_T.clone() for values_T in rollout_data["advantages"]]
    if needs_steps(options := loss_options(args)):
        attach_steps(rollout_data, rank, size)
        if options.aggregate == "step":
            weigh_steps(rollout_data, data_group)
    rollout_data["rewards"] = [raw[i] for i in adapter.batch_positions(rollout_data)]


def policy_loss(
    args: Namespace, batch: dict[str, Any], logits: torch.Tensor, sum_of_sample_mean: Any
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """--custom-loss-function-path with --loss-type custom_loss: step options, and a forward KL.

    `spader.loss.ratio: step` compares policies by decision step, `aggregate: step` gives every
    decision step of an optimizer step the same weight. With neither this is slime's own policy
    loss. With a teacher, `forward_kl_coef` times the gated forward KL is added. Returns the loss
    and metrics under slime's names.

    Raises:
        ConfigError: step options or distillation with a flag that they don't support.
        DataError: `compute_advantages` did not run before.
    """
    options, teacher = loss_options(args), adapter.settings(args).distillation
    mean, log_probs, lesson = sum_of_sample_mean, None, None
    if needs_lesson(teacher):
        places = adapter.response_places(args, batch, logits)
        logits, lesson = take_lesson(logits, places, scores_of(batch), args.rollout_temperature)
    if needs_own_loss(options, teacher):
        steps = join(steps_of(batch["returns"])) if needs_steps(options) else None
        tokens = policy_tokens(args, batch, *adapter.measure(args, batch, logits))
        mean, log_probs = reducer(options, steps, mean), tokens.log_probs_N
        setup = (mean, parallel_groups()[0], partial(adapter.divergence, args))
        result = step_policy_loss(args, tokens, steps, options, *setup)
    else:
        result = adapter.policy_loss(args, batch, logits, mean)
    return add_forward_kl(*result, lesson, log_probs, teacher, mean) if lesson else result


def keep_informative_group(args: Namespace, samples: list[Any], **kwargs: Any) -> Any:
    """--dynamic-sampling-filter-path: drop a group only when it teaches nothing at all.

    That is when its peers did equally well at every step, so that every advantage is zero, and
    there is no teacher. A group whose episodes were all lost is kept: it is masked, and the failure
    limit has to see it.
    """
    credits = [record.credit_of(sample) for sample in samples]
    lost = not any(credit.included for credit in credits)
    taught = adapter.settings(args).distillation.active
    keep = lost or taught or any(value for credit in credits for value in credit.advantages_S)
    return adapter.filter_output(args, keep, None if keep else "equal")


def generate_rollout(
    args: Namespace, rollout_id: int, data_source: Any, evaluation: bool = False
) -> Any:
    """--rollout-function-path: the host's own loop, with our metrics and the failure limit.

    `spader.rollout` chooses slime's synchronous or fully-async loop; over-sampling, filters, abort
    and partial rollout are theirs. Evaluation runs with group rewards off.

    Raises:
        TooManyFailuresError: more than `failures.max_share` of the episodes were lost, or more
            than `distillation.max_lost_share` of the teacher's answers.
        TeacherError: the teacher has another vocabulary, or can't be asked at the start; an
            evaluation does without it.
        ConfigError: step options or distillation with a flag that they don't support.
    """
    loss_options(args)
    if not evaluation:
        check_teacher(args)
    adapter.remember_rollout(rollout_id)
    run, config = adapter.host_rollout(args, evaluation), adapter.settings(args)
    args = adapter.without_group_reward(args) if evaluation else args
    output = run(args, rollout_id, data_source, evaluation=evaluation)
    results = metrics.evaluated(output.data) if evaluation else metrics.trained(output.samples)
    metrics.check_failures(results, config.failures.max_share)
    metrics.check_lessons(results, config.distillation.max_lost_share)
    output.metrics = (output.metrics or {}) | metrics.named_metrics(results)
    return output
