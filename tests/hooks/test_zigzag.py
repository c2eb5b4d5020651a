"""Context-parallel slices: together the ranks own every response token exactly once."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spader_slime.algorithms.zigzag import owned_rows, slice_response


def by_position(total: int, response: int, rank: int, size: int) -> list[int]:
    """The definition, position by position: who owns the logits that score a response token."""
    chunk = (total + 2 * size - 1) // (2 * size)
    own = []
    for token in range(response):
        position = total - response + token - 1
        if position // chunk in (rank, 2 * size - 1 - rank):
            own.append(token)
    return own


@given(st.integers(2, 300), st.data(), st.integers(1, 8))
def test_slices_follow_the_definition(total: int, data: st.DataObject, size: int) -> None:
    response = data.draw(st.integers(0, total - 1))
    values = torch.arange(response)
    slices = [slice_response(values, total, response, rank, size).tolist() for rank in range(size)]
    assert slices == [by_position(total, response, rank, size) for rank in range(size)]
    assert sorted(t for own in slices for t in own) == list(range(response))


def test_a_rank_may_own_nothing() -> None:
    assert owned_rows(total=64, response=1, rank=1, size=4) == [(0, 0), (0, 0)]
    assert len(slice_response(torch.zeros(1), 64, 1, 1, 4)) == 0


def test_two_columns_are_sliced_by_rows() -> None:
    values = torch.arange(20).reshape(10, 2)
    assert slice_response(values, 16, 10, 0, 2).shape[1] == 2


@pytest.mark.parametrize(("response", "rank", "size"), [(5, 0, 2), (4, 2, 2), (3, 0, 1)])
def test_wrong_lengths_are_refused(response: int, rank: int, size: int) -> None:
    with pytest.raises(ValueError):
        slice_response(torch.zeros(4), 4, response, rank, size)
