"""Micro-batches: every acted token once, at the right place, within the budget."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.policies import make_rollout

from spader_slime.errors import DataError
from spader_slime.megatron.batching import micro_batches, read_trajectories, split_minibatches

CPU = torch.device("cpu")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 300))
def test_every_acted_token_is_met_once(seed: int, count: int, budget: int) -> None:
    data = make_rollout(seed, trajectories=count)
    met: Counter[tuple[int, int]] = Counter()
    for batch in micro_batches(read_trajectories(data), budget, CPU):
        rows, longest = batch.tokens_BT.shape
        assert rows == 1 or rows * longest <= budget
        flat = batch.tokens_BT.T.flatten()  # [T, B], as the model sees it
        owners = torch.arange(rows).repeat_interleave(batch.sizes()).tolist()
        places = zip(batch.positions_N.tolist(), batch.targets_N.tolist(), owners, strict=True)
        for position, target, row in places:
            index = batch.trajectories[row].index
            tokens, response = data["tokens"][index], data["response_lengths"][index]
            time = position // rows
            assert position % rows == row
            assert flat[position] == tokens[time] and tokens[time + 1] == target
            met[index, time + 1 - (len(tokens) - response)] += 1
    expected = {
        (index, int(t)): 1
        for index, mask in enumerate(data["loss_masks"])
        for t in mask.nonzero().flatten()
    }
    assert met == expected


def test_nothing_after_the_last_acted_token_is_read() -> None:
    data = make_rollout(0, trajectories=1)
    tokens, response = data["tokens"][0], data["response_lengths"][0]
    data["loss_masks"][0][-3:] = 0
    data["loss_masks"][0][-4] = 1
    (batch,) = micro_batches(read_trajectories(data), 1000, CPU)
    assert batch.tokens_BT.tolist() == [tokens[:-4].tolist()]
    assert batch.pick([torch.arange(response)])[-1] == response - 4


@given(st.integers(0, 40), st.integers(1, 8))
def test_minibatches_are_even_and_complete(count: int, parts: int) -> None:
    items = list(range(count))
    split = split_minibatches(items, parts)  # type: ignore[arg-type]
    assert [x for part in split for x in part] == items and len(split) == parts
    assert max(map(len, split)) - min(map(len, split)) <= 1


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("loss_masks", torch.ones(3), "mask of 3"),
        ("response_lengths", 10_000, "response length 10000"),
        ("tokens", torch.zeros(2, dtype=torch.long), "trajectory 1: 2 tokens"),
    ],
)
def test_lengths_that_disagree_are_refused(key: str, value: object, message: str) -> None:
    data = make_rollout(4, trajectories=3)
    data[key][1] = value
    with pytest.raises(DataError, match=message):
        read_trajectories(data)


def test_a_trajectory_without_prompt_is_refused() -> None:
    data = make_rollout(4, trajectories=1)
    data["tokens"][0] = data["tokens"][0][-data["response_lengths"][0] :]
    with pytest.raises(DataError, match="needs a prompt"):
        read_trajectories(data)


def test_lists_of_different_lengths_are_refused() -> None:
    data = make_rollout(4)
    data["loss_masks"].pop()
    with pytest.raises(DataError, match="different lengths"):
        read_trajectories(data)
