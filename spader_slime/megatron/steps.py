"""Forward and backward passes over micro-batches, through Megatron-core's own schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from megatron.core.pipeline_parallel import get_forward_backward_func
from torch import Tensor

from spader_slime.megatron.batching import MicroBatch
from spader_slime.megatron.cpu import on_device
from spader_slime.megatron.model import PolicyModel

Consume = Callable[[MicroBatch, Tensor], tuple[Tensor, Any]]


def run(
    model: PolicyModel, batches: Sequence[MicroBatch], consume: Consume, train: bool
) -> list[Any]:
    """Run every micro-batch; with `train`, add its gradients to the parameters' `.grad`.

    Args:
        consume: called on the last stage with a micro-batch and its [N, V / tp] logits; returns the
            loss (its gradients add up over micro-batches, undivided) and anything to keep.

    Returns:
        What `consume` kept, in the order of `batches`; empty before the last stage.
    """
    if not batches:
        return []
    with on_device(), nullcontext() if train else torch.no_grad():
        kept: list[Any] = get_forward_backward_func()(
            forward_step_func=partial(_forward, consume),
            data_iterator=iter(batches),
            model=model,
            num_microbatches=len(batches),
            seq_length=max(b.tokens_BT.shape[1] for b in batches),
            micro_batch_size=max(b.tokens_BT.shape[0] for b in batches),
            forward_only=not train,
        )
    return kept


def _forward(consume: Consume, batches: Iterator[MicroBatch], model: PolicyModel) -> Any:
    batch = next(batches)
    output = model.forward_at(batch.tokens_BT, batch.positions_N)

    def finish(logits: Tensor) -> tuple[Tensor, Tensor, Any]:
        loss, kept = consume(batch, logits)
        return loss, torch.zeros((), dtype=torch.int), kept

    return output, finish
