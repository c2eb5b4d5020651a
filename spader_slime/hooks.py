"""The functions that slime calls, by their dotted names. The embedded host calls the same ones.

Each one unpacks what the host hands over, calls the algorithm, and writes the result back.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import torch

from spader_slime import adapter, metrics, record, runtime
from spader_slime.agent.event_loops import off_loop
from spader_slime.agent.loop import run_episode
from spader_slime.algorithms.advantage import spread_over_tokens
from spader_slime.algorithms.credit import assign_credit
from spader_slime.algorithms.zigzag import slice_response
from spader_slime.replay import complete_replay


async def generate(
    args: Namespace, sample: Any, sampling_params: dict[str, Any], evaluation: bool = False
) -> Any:
    """--custom-generate-function-path: run, or go on with, one search trajectory.

    Sampled tokens and observations go into `sample` as they come; the episode is stored in
    `sample.metadata["spader"]["episode"]`. Faults of engine and search never raise: they end the
    episode. `sampling_params` is shared by tasks in evaluation and is not changed.
    """
    keep_mask = args.partial_rollout and args.mask_offpolicy_in_partial_rollout
    context = runtime.context(args, sample, sampling_params, evaluation)
    episode = record.open_episode(sample, context.prompt_ids, keep_mask)
    record.close_episode(sample, await run_episode(context, episode), evaluation)
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
    decision step, 0 on observations. Raw rewards are the answer rewards, as `reward` returned
    them. Works on samples loaded from a debug dump.

    Raises:
        DataError: a sample that `reward` never saw.
    """
    rewards = []
    for sample in samples:
        credit, spans = record.credit_of(sample), record.episode_of(sample).step_spans
        spread = spread_over_tokens(credit.advantages_S, spans, sample.response_length)
        rewards.append(torch.from_numpy(spread))
    return [float(sample.reward) for sample in samples], rewards


def compute_advantages(args: Namespace, rollout_data: dict[str, Any]) -> None:
    """--custom-advantage-function-path: per-token advantages of this context-parallel rank.

    Reads `rewards` as `post_process_rewards` made them ([T] per sample), writes `advantages` and
    `returns` (equal; float32, as long as the rank's own log-probs), and puts the answer rewards
    back as scalars in `rewards`, so that they are logged as such.
    """
    rank, size = adapter.context_parallel()
    lengths = zip(rollout_data["total_lengths"], rollout_data["response_lengths"], strict=True)
    device, raw = rollout_data["tokens"][0].device, rollout_data["raw_reward"]
    rollout_data["advantages"] = [
        slice_response(values_T, total, response, rank, size).to(device)
        for values_T, (total, response) in zip(rollout_data["rewards"], lengths, strict=True)
    ]
    rollout_data["returns"] = [values_T.clone() for values_T in rollout_data["advantages"]]
    rollout_data["rewards"] = [raw[i] for i in adapter.batch_positions(rollout_data)]


def keep_informative_group(args: Namespace, samples: list[Any], **kwargs: Any) -> Any:
    """--dynamic-sampling-filter-path: drop a group only when it teaches nothing at all.

    That is when its peers did equally well at every step, so that every advantage is zero. A group
    whose episodes were all lost is kept: it is masked, and the failure limit has to see it.
    """
    credits = [record.credit_of(sample) for sample in samples]
    lost = not any(credit.included for credit in credits)
    keep = lost or any(value for credit in credits for value in credit.advantages_S)
    return adapter.filter_output(args, keep, None if keep else "equal")


def generate_rollout(
    args: Namespace, rollout_id: int, data_source: Any, evaluation: bool = False
) -> Any:
    """--rollout-function-path: the host's own loop, with our metrics and the failure limit.

    `spader.rollout` chooses slime's synchronous or fully-async loop; over-sampling, filters, abort
    and partial rollout are theirs. Evaluation runs with group rewards off.

    Raises:
        TooManyFailuresError: more than `failures.max_share` of the episodes were lost.
    """
    adapter.remember_rollout(rollout_id)
    run, config = adapter.host_rollout(args, evaluation), adapter.settings(args)
    args = adapter.without_group_reward(args) if evaluation else args
    output = run(args, rollout_id, data_source, evaluation=evaluation)
    results = metrics.evaluated(output.data) if evaluation else metrics.trained(output.samples)
    metrics.check_failures(results, config.failures.max_share)
    output.metrics = (output.metrics or {}) | metrics.named_metrics(results)
    return output
