"""Which decision step a response token belongs to, and means over decision steps.

A token counts where its loss mask is 1; a step all of whose tokens are masked does not exist here.

Legend: T response token of one sample that this context-parallel rank owns, N such token of any
sample of a micro-batch, S decision step (of one sample, or of all samples of a micro-batch).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from spader_slime.algorithms.zigzag import slice_response
from spader_slime.megatron.side_channel import attach, attached

OUTSIDE = -1
NAME = "decision_steps"


@dataclass(frozen=True)
class SampleSteps:
    """Decision steps of one sample.

    Attributes:
        step_T: the token's step, from 0; OUTSIDE where the token is not trained. int64.
        counts_S: trained tokens of each step, over all context-parallel ranks; at least 1, float32.
        weight: of a step in an aggregate over steps.
    """

    step_T: Tensor
    counts_S: Tensor
    weight: float = 1.0

    def at(self, rows: Tensor) -> SampleSteps:
        """For the chosen tokens only; the counts stay those of the whole response."""
        return replace(self, step_T=self.step_T[rows])


@dataclass(frozen=True)
class BatchSteps:
    """Decision steps of a micro-batch, one behind the other.

    Attributes:
        step_N: place in `counts_S`; tokens that are not trained go to the last place. int64.
        counts_S: as in `SampleSteps`; 1 in the last place.
        weights_N: the step's weight / its count, so that every step sums to its weight; 0 where
            the token is not trained.
    """

    step_N: Tensor
    counts_S: Tensor
    weights_N: Tensor


def sample_steps(number_T: Tensor, mask_T: Tensor) -> SampleSteps:
    """Steps of a whole response.

    Args:
        number_T: 1 for tokens of the first decision step, 2, ...; 0 on observations.
        mask_T: loss mask.
    """
    trained = (number_T > 0) & (mask_T > 0)
    _, places, counts = number_T[trained].unique(return_inverse=True, return_counts=True)
    step_T = torch.full(number_T.shape, OUTSIDE, dtype=torch.int64)
    step_T[trained] = places
    return SampleSteps(step_T, counts.float())


def attach_steps(data: dict[str, Any], rank: int, size: int) -> None:
    """Put this rank's part of every sample's steps on the tensors of `data["returns"]`.

    Args:
        data: `rollout_data`: rewards [T, 2] (advantage, number of the step), loss_masks,
            total_lengths, response_lengths, tokens, returns. Under slime also its schedule, by
            which each step gets a weight of its optimizer step's samples / decision steps.
        rank, size: of context parallelism.
    """
    device, made = data["tokens"][0].device, []
    numbers = [values_T2[:, 1].cpu() for values_T2 in data["rewards"]]
    lengths = zip(data["total_lengths"], data["response_lengths"], strict=True)
    masks = [torch.as_tensor(mask).cpu() for mask in data["loss_masks"]]
    for number_T, mask_T, (total, response) in zip(numbers, masks, lengths, strict=True):
        whole = sample_steps(number_T, mask_T)
        own_T = slice_response(whole.step_T, total, response, rank, size)
        made.append(SampleSteps(own_T.to(device), whole.counts_S.to(device)))
    attach(data["returns"], NAME, made)


def weigh_steps(data: dict[str, Any], group: dist.ProcessGroup | None) -> None:
    """Give every decision step of an optimizer step the same weight, whatever sample it is in.

    slime divides the sum of an optimizer step by its samples; a weight of samples / decision steps
    makes that the mean over decision steps. Does nothing without slime's schedule.

    Args:
        group: data-parallel ranks, without context parallelism; one all-reduce.
    """
    if "micro_batch_indices" not in data:
        return
    steps, parts = steps_of(data["returns"]), _optimizer_steps(data)
    totals = [sum(len(steps[row].counts_S) for row in part) for part in parts]
    sums = torch.tensor(totals, dtype=torch.float32, device=data["tokens"][0].device)
    if group is not None and dist.get_world_size(group) > 1:
        dist.all_reduce(sums, group=group)
    for part, size, total in zip(parts, data["global_batch_sizes"], sums.tolist(), strict=True):
        found = [replace(steps[row], weight=size / max(total, 1.0)) for row in part]
        attach([data["returns"][row] for row in part], NAME, found)


def _optimizer_steps(data: dict[str, Any]) -> list[list[int]]:
    """This rank's samples by optimizer step."""
    batches = iter(data["micro_batch_indices"])
    return [
        [row for _ in range(count) for row in next(batches)] for count in data["num_microbatches"]
    ]


def steps_of(returns: Sequence[Tensor] | None) -> list[SampleSteps]:
    """What `attach_steps` left on these tensors.

    Raises:
        DataError: nothing.
    """
    return attached(returns, NAME)


def join(samples: Sequence[SampleSteps]) -> BatchSteps:
    """One behind the other."""
    device = samples[0].step_T.device
    sizes = torch.tensor([len(s.counts_S) for s in samples], device=device)
    lengths = torch.tensor([len(s.step_T) for s in samples], device=device)
    weights_S = torch.tensor([s.weight for s in samples], device=device).repeat_interleave(sizes)
    own_N = torch.cat([s.step_T for s in samples])
    first_N = (sizes.cumsum(0) - sizes).repeat_interleave(lengths)
    counts_S = torch.cat([*(s.counts_S for s in samples), torch.ones(1, device=device)])
    step_N = torch.where(own_N == OUTSIDE, len(counts_S) - 1, own_N + first_N)
    shares_S = torch.cat([weights_S, weights_S.new_zeros(1)]) / counts_S
    return BatchSteps(step_N, counts_S, shares_S[step_N])


def step_mean(values_N: Tensor, steps: BatchSteps, group: dist.ProcessGroup | None) -> Tensor:
    """Each token's value replaced by the mean over the trained tokens of its decision step.

    Tokens that are not trained get 0. Differentiable, also through what other ranks own.

    Args:
        group: context-parallel ranks; all of them must call this, and run backward through it, even
            one that owns no token.
    """
    last = len(steps.counts_S) - 1
    trained_N = torch.where(steps.step_N < last, values_N, 0.0)
    sums_S = values_N.new_zeros(last + 1).index_add(0, steps.step_N, trained_N)
    if group is not None and dist.get_world_size(group) > 1:
        sums_S = _Sum.apply(sums_S, group)
    means_S = sums_S / steps.counts_S
    return torch.where(steps.step_N < last, means_S[steps.step_N], 0.0)


class _Sum(torch.autograd.Function):
    """All-reduce; the gradient of what every rank made of the sum is summed up as well."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group, total = group, values.detach().clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        total = grads[0].contiguous().clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None
