"""A teacher's scores beside slime's own reverse KL, and on pipeline stages that need none."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
from contracts.checks_distillation_ranks import (
    DATA,
    REVERSE,
    VARIANTS,
    Variant,
    advantages,
    check,
    rollout_data,
    train,
)
from contracts.checks_logging import check_logs
from contracts.forked import on_ranks
from support.taught_data import THRESHOLD, TOP_K, reverse_kl, source_scores, subtracted

OPD = {"use_opd": True, "opd_type": "sglang", "opd_kl_coef": REVERSE}
ON_STAGES = ("drop", "keep", "drop, by step")


def opd() -> None:
    """slime's own --use-opd subtracts what our hook does, and both are logged."""
    on_ranks(4, {"context_parallel_size": 2}, _both_ways)


def _both_ways() -> None:
    ours = advantages(Variant().args(), 2)
    args = Variant().args(reverse="opd", **OPD)
    theirs, scores = advantages(args, 2), source_scores(DATA, THRESHOLD)
    assert all(map(torch.equal, ours["advantages"], theirs["advantages"]))
    assert any(values.any() for values in theirs["opd_reverse_kl"])
    gaps, returns = reverse_kl(DATA, scores), [values[:, 0] for values in DATA["rewards"]]
    changed = subtracted(DATA, scores, REVERSE)
    check_logs(args, theirs, changed, opd_reverse_kl=gaps, returns=returns)


def on_stages() -> None:
    """PP 2: the first stage trains beside the packed scores; the last computes as ever."""
    first, last = on_ranks(2, {"pipeline_model_parallel_size": 2}, _stage)
    assert first == len(DATA["tokens"])
    for name in ON_STAGES:
        for number, result in enumerate(last[name]):
            check(name, number, *result)


def _stage() -> Any:
    mpu: Any = import_module("megatron.core").mpu
    if mpu.is_pipeline_last_stage():
        return {name: train(VARIANTS[name], cp=1) for name in ON_STAGES}
    args = Variant("keep").args()
    data = rollout_data(args, 1)
    before = dict(data)
    import_module("slime.backends.megatron_utils.loss").compute_advantages_and_returns(args, data)
    assert data.keys() == before.keys() and all(data[key] is before[key] for key in data)
    assert all(packed.shape[1] == 4 + 2 * TOP_K for packed in data["teacher_log_probs"])
    check_logs(args, data, DATA)
    batches: Any = import_module("slime.backends.megatron_utils.data")
    iterator = batches.DataIterator(data, data["micro_batch_indices"])
    pairs = zip(data["num_microbatches"], data["global_batch_sizes"], strict=True)
    return sum(_first_stage_step(args, iterator, *pair) for pair in pairs)


def _first_stage_step(args: Namespace, iterator: Any, count: int, size: int) -> int:
    """slime's train_one_step where the schedule never comes to the loss; samples of it."""
    model: Any = import_module("slime.backends.megatron_utils.model")
    model.get_args, samples = (lambda: args), 0

    def forward_backward(*, forward_step_func: Any, data_iterator: Any, **kwargs: Any) -> list[Any]:
        nonlocal samples
        for _ in range(count):
            forward_step_func(data_iterator, lambda input_ids, **kwargs: input_ids.float())
        samples += size
        return []

    model.get_forward_backward_func = lambda: forward_backward
    optimizer = SimpleNamespace(zero_grad=lambda: None, step=lambda: (True, 0.0, 0))
    scheduler = SimpleNamespace(step=lambda increment: None)
    metrics, _ = model.train_one_step(args, 0, 0, iterator, [], optimizer, scheduler, count, size)
    assert metrics == {}
    return samples
