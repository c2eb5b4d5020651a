"""Samples to what a trainer process receives, with slime's key names."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import torch

from spader_slime.errors import DataError
from spader_slime.local.sample import Sample, Status
from spader_slime.local.seam import load_function

_DTYPES = {
    "tokens": torch.long,
    "loss_masks": torch.int,
    "rollout_log_probs": torch.float32,
    "teacher_log_probs": torch.float32,
}
_WHOLE = ("raw_reward",)  # sent to every rank as it is, as in slime


def convert_samples_to_train_data(args: Namespace, samples: list[Sample]) -> dict[str, list[Any]]:
    """Per-sample lists under slime's keys; `rewards` come from the post-process hook.

    Raises:
        DataError: a sample whose loss mask or log-probs don't match its response.
    """
    raw_reward, rewards = load_function(args.custom_reward_post_process_path)(args, samples)
    for sample in samples:
        _check(sample)
        if sample.remove_sample:
            sample.loss_mask = [0] * sample.response_length
    data: dict[str, list[Any]] = {
        "tokens": [sample.tokens for sample in samples],
        "response_lengths": [sample.response_length for sample in samples],
        "rewards": list(rewards),
        "raw_reward": list(raw_reward),
        "truncated": [int(sample.status is Status.TRUNCATED) for sample in samples],
        "sample_indices": [sample.index for sample in samples],
        "rollout_ids": _rollout_ids(samples),
        "loss_masks": [sample.loss_mask for sample in samples],
        "rollout_log_probs": [sample.rollout_log_probs for sample in samples],
        "source_names": [sample.metadata.get("source_name") or "unknown" for sample in samples],
    }
    if samples and samples[0].teacher_log_probs is not None:
        data["teacher_log_probs"] = [sample.teacher_log_probs for sample in samples]
    data["rollout_mask_sums"] = _mask_sums(data["rollout_ids"], data["loss_masks"])
    return data


def _check(sample: Sample) -> None:
    for name in ("loss_mask", "rollout_log_probs"):
        values = getattr(sample, name)
        if values is None or len(values) != sample.response_length:
            found = "no" if values is None else len(values)
            raise DataError(
                f"sample {sample.index}: {found} {name} entries for a response of "
                f"{sample.response_length} tokens"
            )


def _rollout_ids(samples: list[Sample]) -> list[int]:
    taken = {sample.rollout_id for sample in samples}
    free = (number for number in range(2 * len(samples) + 1) if number not in taken)
    return [next(free) if s.rollout_id is None else s.rollout_id for s in samples]


def _mask_sums(rollout_ids: list[int], loss_masks: list[list[int]]) -> list[int]:
    sums: dict[int, int] = {}
    for rollout, mask in zip(rollout_ids, loss_masks, strict=True):
        sums[rollout] = sums.get(rollout, 0) + sum(mask)
    return [sums[rollout] for rollout in rollout_ids]


def split_by_dp(data: dict[str, list[Any]], dp_size: int) -> list[dict[str, Any]]:
    """One mapping per data-parallel rank, in the form the advantage hook sees it.

    Every rank gets the same number of samples give or take one, and about the same number of
    tokens. `raw_reward` stays whole on every rank; `partition` says which samples are its own.
    """
    lengths = [len(tokens) for tokens in data["tokens"]]
    return [_shard(data, lengths, sorted(rows)) for rows in _partitions(lengths, dp_size)]


def _partitions(lengths: list[int], dp_size: int) -> list[list[int]]:
    longest_first = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    rows: list[list[int]] = [[] for _ in range(dp_size)]
    for place, sample in enumerate(longest_first):
        lap, rank = divmod(place, dp_size)
        rows[rank if lap % 2 == 0 else dp_size - 1 - rank].append(sample)
    return rows


def _shard(data: dict[str, list[Any]], lengths: list[int], rows: list[int]) -> dict[str, Any]:
    shard: dict[str, Any] = {"partition": rows}
    for key, values in data.items():
        own = values if key in _WHOLE else [values[i] for i in rows]
        dtype = _DTYPES.get(key)
        shard[key] = [torch.as_tensor(v, dtype=dtype) for v in own] if dtype else own
    shard["total_lengths"] = [lengths[i] for i in rows]
    shard["rollout_mask_sums"] = torch.tensor(shard["rollout_mask_sums"], dtype=torch.float32)
    return shard
