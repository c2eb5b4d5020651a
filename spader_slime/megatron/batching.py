"""From slime's `rollout_data` (lists, one entry per trajectory) to padded micro-batches.

Legend: T token, B sequence of a micro-batch, A token of one trajectory where the policy acted
(loss mask 1), N such token of any trajectory of a micro-batch, in the order of its sequences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from spader_slime.algorithms.teacher_scores import TeacherScores
from spader_slime.errors import DataError
from spader_slime.megatron.decision_steps import BatchSteps, SampleSteps, join

RolloutData = Mapping[str, Any]


@dataclass(frozen=True)
class Trajectory:
    """One trajectory, cut after the last token that the policy chose.

    Attributes:
        index: its place in the lists of `rollout_data`.
        tokens_T: prompt and response ids, int64.
        acted_A: response positions (from 0) with loss mask 1.
        targets_A: the ids there.
        start: prompt length.
        response: response length before the cut.
        count: denominator of its token mean (`rollout_mask_sums`).
    """

    index: int
    tokens_T: Tensor
    acted_A: Tensor
    targets_A: Tensor
    start: int
    response: int
    count: float

    @property
    def inputs(self) -> int:
        """Tokens that the model has to read."""
        return len(self.tokens_T) - 1


@dataclass(frozen=True)
class MicroBatch:
    """Sequences padded on the right, and the flat list of tokens where the policy acted.

    Attributes:
        tokens_BT: input ids.
        positions_N: where each acted token is predicted, in the flattened [T, B] grid.
        targets_N: the acted tokens' ids.
        trajectories: one per row.
    """

    tokens_BT: Tensor
    positions_N: Tensor
    targets_N: Tensor
    trajectories: tuple[Trajectory, ...]

    def pick(self, values: Sequence[Tensor]) -> Tensor:
        """Flat [N] of per-trajectory response vectors, the list indexed as `rollout_data`."""
        parts = [values[t.index][t.acted_A] for t in self.trajectories]
        return torch.cat(parts).to(self.tokens_BT.device, torch.float32)

    def steps(self, samples: Sequence[SampleSteps]) -> BatchSteps:
        """Decision steps of the acted tokens, the list indexed as `rollout_data`."""
        return join([samples[t.index].at(t.acted_A) for t in self.trajectories])

    def lessons(self, scores: Sequence[TeacherScores]) -> list[TeacherScores]:
        """A teacher's scores of the acted tokens, the list indexed as `rollout_data`."""
        return [scores[t.index].at(t.acted_A) for t in self.trajectories]

    def counts(self) -> Tensor:
        """Flat [N]: each token's trajectory denominator."""
        counts = torch.tensor([t.count for t in self.trajectories])
        return counts.repeat_interleave(self.sizes()).to(self.tokens_BT.device)

    def sizes(self) -> Tensor:
        """Acted tokens per trajectory."""
        return torch.tensor([len(t.acted_A) for t in self.trajectories])


def read_trajectories(data: RolloutData) -> list[Trajectory | None]:
    """One entry per trajectory; None where the mask leaves nothing to learn from.

    Raises:
        DataError: lists of different lengths, or a mask that does not fit its response.
    """
    tokens, masks, lengths = data["tokens"], data["loss_masks"], data["response_lengths"]
    if not len(tokens) == len(masks) == len(lengths):
        raise DataError("tokens, loss_masks and response_lengths have different lengths")
    sums = data.get("rollout_mask_sums")
    return [
        _read(i, tokens[i], masks[i], int(lengths[i]), None if sums is None else float(sums[i]))
        for i in range(len(tokens))
    ]


def _read(
    index: int, tokens: Any, mask: Any, response: int, count: float | None
) -> Trajectory | None:
    tokens_T, mask_T = torch.as_tensor(tokens), torch.as_tensor(mask)
    start = len(tokens_T) - response
    if len(mask_T) != response or start < 1:
        raise DataError(
            f"trajectory {index}: {len(tokens_T)} tokens, response length {response}, "
            f"mask of {len(mask_T)}; needs a prompt and a mask as long as the response"
        )
    acted_A = mask_T.nonzero().squeeze(1)
    if not len(acted_A):
        return None
    tokens_T = tokens_T[: start + int(acted_A[-1]) + 1].long()
    if count is None:
        count = float(len(acted_A))
    return Trajectory(index, tokens_T, acted_A, tokens_T[acted_A + start], start, response, count)


def split_minibatches(
    trajectories: Sequence[Trajectory | None], minibatches: int
) -> list[Sequence[Trajectory | None]]:
    """Consecutive parts of nearly equal size, as slime splits a rollout into training steps.

    Always `minibatches` parts; some are empty when there are fewer trajectories than that.
    """
    total = len(trajectories)
    bounds = [total * k // minibatches for k in range(minibatches + 1)]
    return [trajectories[a:b] for a, b in pairwise(bounds)]


def micro_batches(
    trajectories: Sequence[Trajectory | None], budget: int, device: torch.device
) -> list[MicroBatch]:
    """Length-sorted micro-batches of at most `budget` padded tokens (one sequence at least)."""
    real = [t for t in trajectories if t is not None]
    return [_pad(group, device) for group in plan(real, budget)]


def plan(trajectories: Sequence[Trajectory], budget: int) -> list[list[Trajectory]]:
    """Group trajectories, longest first, so that rows x longest row stays within `budget`."""
    groups: list[list[Trajectory]] = []
    for item in sorted(trajectories, key=lambda t: (-t.inputs, t.index)):
        if groups and (len(groups[-1]) + 1) * groups[-1][0].inputs <= budget:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def _pad(group: Sequence[Trajectory], device: torch.device) -> MicroBatch:
    rows, longest = len(group), max(t.inputs for t in group)
    tokens_BT = torch.zeros(rows, longest, dtype=torch.int64)
    for row, item in enumerate(group):
        tokens_BT[row, : item.inputs] = item.tokens_T[:-1]
    positions = [(t.acted_A + (t.start - 1)) * rows + row for row, t in enumerate(group)]
    return MicroBatch(
        tokens_BT=tokens_BT.to(device),
        positions_N=torch.cat(positions).to(device),
        targets_N=torch.cat([t.targets_A for t in group]).to(device),
        trajectories=tuple(group),
    )
