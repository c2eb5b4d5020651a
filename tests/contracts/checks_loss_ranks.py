"""slime's own way from samples to gradients on DP x TP x CP against float64, all step options."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict, replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
from contracts.checks_logging import check_logs
from contracts.forked import on_ranks
from contracts.loss_flags import loss_args
from contracts.real_slime import Manager, fetch
from support.episodes import episode
from support.step_loss import VOCAB, Coefficients, Data, make_data, make_table, slow_loss

from spader_slime import hooks, record
from spader_slime.algorithms.credit import assign_credit
from spader_slime.config import SpaderConfig
from spader_slime.episode import End, Episode, Turn, TurnKind

RANKS, CP = 4, 2  # the other factor 2 is data or tensor parallelism
PADDED = VOCAB + 1  # as Megatron pads the vocabulary for two tensor-parallel ranks
OPTIMIZER_STEPS = ([0, 1, 2, 3], [4, 5, 6, 7])  # slime's: consecutive samples
VARIANTS: dict[str, dict[str, Any]] = {
    "zigzag": {},
    "recomputed": {"recompute_loss_function": True},
    "all-gather": {"allgather_cp": True},
}
OPTIONS = {  # "token" and "token" is slime's own loss, which has no dual clip in v0.3.1
    ("token", "token"): Coefficients(eps_clip_c=None),
    ("step", "token"): Coefficients(),
    ("token", "step"): Coefficients(),
    ("step", "step"): Coefficients(),
}


def training_steps(tp: int = 1) -> None:
    """Loss, metrics and gradient of two optimizer steps, whichever way slime cuts sequences."""
    data = make_data(noise=0.0)
    axes = {"tensor_model_parallel_size": tp, "context_parallel_size": CP}
    found = on_ranks(RANKS, axes, lambda: _all(data))[0]
    for (variant, options, number), (metrics, gradient) in found.items():
        table = make_table(torch.float64)
        loss, exact = slow_loss(data, table, OPTIMIZER_STEPS[number], *options, OPTIONS[options])
        loss.backward()
        assert table.grad is not None
        place = (variant, options, number)
        assert metrics.keys() == exact.keys(), (place, metrics, exact)
        for name, value in exact.items():
            assert abs(metrics[name] - value) <= 1e-5 * max(abs(value), 0.1), (place, name)
        error = (gradient.double() - table.grad).norm() / table.grad.norm()
        assert error <= 1e-5, (place, float(error))
    assert len(found) == len(VARIANTS) * len(OPTIONS) * len(OPTIMIZER_STEPS)


def _all(data: Data) -> dict[tuple[str, tuple[str, str], int], Any]:
    return {
        (variant, options, number): result
        for variant in VARIANTS
        for options in OPTIONS
        for number, result in enumerate(_train(data, options, VARIANTS[variant]))
    }


def make_samples(data: Data) -> list[Any]:
    """slime's samples, with episodes and credits as our hooks leave them."""
    kind: Any = import_module("slime.utils.types").Sample
    (credit,) = assign_credit([episode(answer=["Oslo"])], [["Oslo"]], SpaderConfig(), 0)
    samples = []
    for index, tokens in enumerate(data["tokens"]):
        spans, response = data["spans"][index], data["response_lengths"][index]
        sample = kind(index=index, tokens=tokens.tolist(), reward=float(index))
        sample.response_length, sample.loss_mask = response, data["loss_masks"][index].tolist()
        sample.rollout_log_probs = data["rollout_log_probs"][index].tolist()
        turns = [Turn(span, TurnKind.SEARCH) for span in spans]
        record.close_episode(sample, Episode(turns=turns, end=End.ANSWERED), evaluation=False)
        values = [float(data["rewards"][index][a, 0]) if a < b else 0.0 for a, b in spans]
        record.store_credit(sample, replace(credit, advantages_S=tuple(values)))
        samples.append(sample)
    return samples


def _train(data: Data, options: tuple[str, str], flags: dict[str, Any]) -> list[Any]:
    """Everything between samples and optimizer, in slime's own order."""
    ratio, aggregate = options
    spader = {"loss": {"ratio": ratio, "aggregate": aggregate}}
    args = loss_args(spader=spader, use_kl_loss=True, **(asdict(OPTIONS[options]) | flags))
    dp = import_module("megatron.core").mpu.get_data_parallel_world_size()
    manager = Manager(args, hooks.post_process_rewards, dp=dp, cp=CP)
    shards = manager.split(manager.convert(make_samples(data)))
    rollout_data = fetch(args, shards)
    positions = rollout_data.get("partition") or rollout_data["rollout_ids"]
    cut: Any = import_module("slime.backends.megatron_utils.cp_utils").slice_log_prob_with_cp
    for key in ("log_probs", "ref_log_probs"):  # as the actor's own forward passes leave them
        lengths = (rollout_data["total_lengths"], rollout_data["response_lengths"])
        rows = zip([data[key][i] for i in positions], *lengths, strict=True)
        rollout_data[key] = [cut(*row) for row in rows]
    loss: Any = import_module("slime.backends.megatron_utils.loss")
    loss.compute_advantages_and_returns(args, rollout_data)
    check_logs(args, rollout_data, data)
    batches: Any = import_module("slime.backends.megatron_utils.data")
    iterator = batches.DataIterator(rollout_data, rollout_data["micro_batch_indices"])
    counts, sizes = rollout_data["num_microbatches"], rollout_data["global_batch_sizes"]
    assert sizes == [4, 4]
    return [train_step(args, iterator, *pair) for pair in zip(counts, sizes, strict=True)]


def train_step(
    args: Namespace, iterator: Any, count: int, size: int
) -> tuple[dict[str, float], Any]:
    """slime's train_one_step with the toy policy; the schedule does what Megatron's does."""
    model: Any = import_module("slime.backends.megatron_utils.model")
    table = make_table(torch.float32)
    model.get_args = lambda: args

    def forward_backward(*, forward_step_func: Any, data_iterator: Any, **kwargs: Any) -> list[Any]:
        logs = []
        for _ in range(count):
            network = lambda input_ids, **kwargs: own_columns(table[input_ids])  # noqa: E731
            logits, loss_function = forward_step_func(data_iterator, network)
            loss, _, log = loss_function(logits)
            (loss / count).backward()
            logs.append(log)
        return logs

    model.get_forward_backward_func = lambda: forward_backward
    optimizer = SimpleNamespace(zero_grad=lambda: None, step=lambda: (True, 0.0, 0))
    scheduler = SimpleNamespace(step=lambda increment: None)
    metrics, _ = model.train_one_step(args, 0, 0, iterator, [], optimizer, scheduler, count, size)
    assert table.grad is not None
    mpu: Any = import_module("megatron.core").mpu
    replicas = mpu.get_data_parallel_group(with_context_parallel=True)
    for group in (replicas, mpu.get_tensor_model_parallel_group()):
        torch.distributed.all_reduce(table.grad, group=group)  # a mean over replicas
    return metrics, table.grad / mpu.get_data_parallel_world_size(with_context_parallel=True)


def own_columns(logits: torch.Tensor) -> torch.Tensor:
    """This tensor-parallel rank's part of the vocabulary."""
    mpu: Any = import_module("megatron.core").mpu
    size = mpu.get_tensor_model_parallel_world_size()
    if size == 1:
        return logits
    padded = torch.nn.functional.pad(logits, (0, PADDED - VOCAB), value=-50.0)
    return padded.chunk(size, -1)[mpu.get_tensor_model_parallel_rank()].contiguous()
