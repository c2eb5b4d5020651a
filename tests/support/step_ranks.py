"""The loss hook on real gloo processes under Megatron's process groups, for `step_loss` data."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spader_slime import adapter, hooks
from spader_slime.algorithms.zigzag import owned_rows, slice_response
from spader_slime.megatron.groups import context_place
from spader_slime.megatron.losses import k3_kl
from support.grids import quick_context
from support.step_loss import OPTIMIZER_STEPS, Coefficients, Data, logits_of, make_data, make_table

Micro = list[list[int]]
# Rows of a rank's samples in each micro-batch of the two optimizer steps: (2, 1) on every rank.
UNEVEN: dict[int, list[Micro]] = {
    1: [[[0, 1, 2, 3, 4, 5], [6, 7]]],
    2: [[[2], [0, 1], [3]], [[1], [0, 2], [3]]],  # a rank without any token in its first one
}
COUNTS = {1: [1, 1], 2: [2, 1]}


def slime_args(ratio: str, aggregate: str, asked: Coefficients) -> Namespace:
    """What slime's arguments would be."""
    return Namespace(
        **asdict(asked),
        use_rollout_logprobs=False,
        use_kl_loss=True,
        use_unbiased_kl=False,
        loss_type="custom_loss",
        spader={"loss": {"ratio": ratio, "aggregate": aggregate}},
    )


def rank_data(data: Data, dp: int, cp_rank: int, cp: int, dp_rank: int) -> Data:
    """What slime hands over on one rank before the advantage hook."""
    own = list(range(dp_rank, len(data["tokens"]), dp))
    found: Data = {key: [values[i] for i in own] for key, values in data.items()}
    lengths = list(zip(found["total_lengths"], found["response_lengths"], strict=True))
    for key in ("log_probs", "ref_log_probs", "rollout_log_probs"):
        found[key] = [
            slice_response(values, *length, cp_rank, cp)
            for values, length in zip(found[key], lengths, strict=True)
        ]
    found |= {"raw_reward": data["raw_reward"], "partition": own}
    found |= {"micro_batch_indices": UNEVEN[dp][dp_rank], "num_microbatches": COUNTS[dp]}
    found["global_batch_sizes"] = [len(part) for part in OPTIMIZER_STEPS]
    return found


def places(args: Namespace, batch: Data, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Stands in for slime: rows of this rank's packed zigzag logits, and the ids they predict."""
    rank, size = context_place()
    rows, targets, base = [], [], 0
    names = ("unconcat_tokens", "total_lengths", "response_lengths")
    for tokens, total, response in zip(*(batch[name] for name in names), strict=True):
        chunk = -(-total // (2 * size))
        starts = (rank * chunk, (2 * size - 1 - rank) * chunk)
        for half, (first, last) in enumerate(owned_rows(total, response, rank, size)):
            for token in range(first, last):
                position = total - response - 1 + token
                rows.append(base + half * chunk + position - starts[half])
                targets.append(int(tokens[position + 1]))
        base += 2 * chunk
    return torch.tensor(rows, dtype=torch.long), torch.tensor(targets, dtype=torch.long)


def measure(args: Namespace, batch: Data, logits: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Stands in for slime: log-probs and entropies of these tokens, those of all samples as one."""
    rows, targets = places(args, batch, logits)
    picked_PV = logits[0, rows].log_softmax(-1)
    own = picked_PV.gather(1, targets[:, None])[:, 0]
    return [own], [-(picked_PV.exp() * picked_PV).sum(-1)]


def pack_logits(data: Data, table: Tensor, rows: list[int], rank: int, size: int) -> Tensor:
    """This rank's chunks of every sample, padded, one behind the other: [1, P, V]."""
    packed = []
    for row in rows:
        logits_TV = logits_of(data, table, row)
        chunk = -(-len(logits_TV) // (2 * size))
        padded = torch.nn.functional.pad(logits_TV, (0, 0, 0, 2 * size * chunk - len(logits_TV)))
        chunks = padded.split(chunk)
        packed += [chunks[rank], chunks[2 * size - 1 - rank]]
    return torch.cat(packed)[None]


def token_mean(batch: Data, rank: int, size: int) -> Callable[[Tensor], Tensor]:
    """slime's `sum_of_sample_mean`."""
    lengths = zip(batch["total_lengths"], batch["response_lengths"], strict=True)
    masks = [
        slice_response(mask, *length, rank, size)
        for mask, length in zip(batch["loss_masks"], lengths, strict=True)
    ]
    sums = [float(total) for total in batch["rollout_mask_sums"]]
    weights = torch.cat([m / max(total, 1.0) for m, total in zip(masks, sums, strict=True)])
    return lambda values: (values * weights).sum()


def run_rank(dp: int, options: list[tuple[str, str]], asked: Coefficients) -> list[Any]:
    """[(loss metrics summed over ranks, gradient summed over ranks)] by options, optimizer step."""
    from megatron.core import mpu

    adapter.measure = measure  # type: ignore[assignment]
    adapter.divergence = lambda args, now, ref, ratio: k3_kl(now, ref)  # type: ignore[assignment]
    rank, size = context_place()
    dp_rank = mpu.get_data_parallel_rank()
    found = []
    for ratio, aggregate in options:
        args = slime_args(ratio, aggregate, asked)
        data = rank_data(make_data(), dp, rank, size, dp_rank)
        hooks.compute_advantages(args, data)
        batches = iter(data["micro_batch_indices"])
        for count, total in zip(data["num_microbatches"], data["global_batch_sizes"], strict=True):
            parts = [next(batches) for _ in range(count)]
            found.append(_optimizer_step(args, data, parts, total, rank, size))
    return found


def _optimizer_step(
    args: Namespace, data: Data, parts: Micro, total: int, rank: int, size: int
) -> tuple[dict[str, float], Tensor]:
    table, summed = make_table(torch.float32), dict[str, Tensor]()
    for rows in parts:
        batch = {key: [values[i] for i in rows] for key, values in data.items() if _per_row(key)}
        batch["unconcat_tokens"] = batch.pop("tokens")
        logits = pack_logits(data, table, rows, rank, size)
        loss, metrics = hooks.policy_loss(args, batch, logits, token_mean(batch, rank, size))
        (loss / total).backward()
        for name, value in metrics.items():
            summed[name] = summed.get(name, torch.zeros(())) + value / total
    assert table.grad is not None
    values = torch.stack([*summed.values()])
    for tensor in (values, table.grad):
        torch.distributed.all_reduce(tensor)
    return dict(zip(summed, values.tolist(), strict=True)), table.grad


def _per_row(key: str) -> bool:
    return key not in ("micro_batch_indices", "num_microbatches", "global_batch_sizes")


def on_ranks(dp: int, cp: int, options: list[tuple[str, str]], asked: Coefficients) -> list[Any]:
    """`run_rank` on dp x cp processes; what world rank 0 found."""
    with tempfile.TemporaryDirectory() as name:
        target = partial(_member, world=dp * cp, cp=cp, folder=Path(name))
        context = quick_context()
        processes = [
            context.Process(target=target, args=(rank, dp, options, asked))
            for rank in range(dp * cp)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert [p.exitcode for p in processes] == [0] * (dp * cp)
        return list(torch.load(Path(name) / "0.pt", weights_only=False))


def _member(
    rank: int, dp: int, options: Any, asked: Coefficients, world: int, cp: int, folder: Path
) -> None:
    from megatron.core import mpu

    torch.set_num_threads(1)
    store = torch.distributed.FileStore(str(folder / "store"), world)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=world)
    mpu.initialize_model_parallel(context_parallel_size=cp)
    found = run_rank(dp, options, asked)
    if rank == 0:
        torch.save(found, folder / "0.pt")
    torch.distributed.destroy_process_group()
