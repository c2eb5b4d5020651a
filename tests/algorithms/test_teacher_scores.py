"""The packed tensor: exact there and back, refused where it would not be."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spader_slime.algorithms.teacher_scores import (
    MAX_ID,
    TeacherScores,
    no_scores,
    response_log_probs,
    unpack,
)
from spader_slime.errors import DataError

FIELDS = tuple(TeacherScores.__dataclass_fields__)


def scores(seed: int, length: int, top_k: int) -> TeacherScores:
    source = torch.Generator().manual_seed(seed)
    singles = torch.randn(4, length, generator=source).unbind(0)
    ids = torch.randint(MAX_ID + 1, (length, top_k), generator=source)
    return TeacherScores(*singles, ids, torch.randn(length, top_k, generator=source))


@given(st.integers(0, 999), st.integers(0, 9), st.integers(0, 64), st.data())
def test_there_and_back(seed: int, length: int, top_k: int, data: st.DataObject) -> None:
    packed = scores(seed, length, top_k).pack()
    assert packed.dtype == torch.float32 and packed.shape == (length, 4 + 2 * top_k)
    start = data.draw(st.integers(0, length))
    found, expected = unpack(packed[start:]), scores(seed, length, top_k)
    for name in FIELDS:
        assert torch.equal(getattr(found, name), getattr(expected, name)[start:]), name
    assert found.ids_TK.dtype == torch.int64


def test_an_id_that_would_be_rounded_is_refused() -> None:
    lost = scores(0, 2, 3)
    lost.ids_TK[1, 2] = MAX_ID + 1
    with pytest.raises(DataError, match=str(MAX_ID + 1)):
        lost.pack()


@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 7), (5, 6, 1)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="teacher scores of shape"):
        unpack(torch.zeros(shape))


def test_no_scores_weigh_nothing() -> None:
    nothing = no_scores(3, 2)
    assert nothing.ids_TK.shape == (3, 2) and not nothing.weight_T.any()
    assert not nothing.gate_T.any()


IDS, PROMPT_LEN = [13, 5, 6, 20], 2


@pytest.mark.parametrize("start", [0, 1])
def test_the_response_alone_wherever_scoring_began(start: int) -> None:
    entries = [[None, IDS[start], None], *([-float(i), i, None] for i in IDS[start + 1 :])]
    assert response_log_probs(IDS, PROMPT_LEN, start, entries).tolist() == [-6.0, -20.0]


@pytest.mark.parametrize(
    ("start", "entries", "message"),
    [
        (1, [[None, 5, None], [-1.0, 6, None]], "2 scores; expected 3"),
        (1, [[None, 5, None], [-1.0, 6, None], [-1.0, 21, None]], "other tokens"),
        (1, [[None, 5, None], [None, 6, None], [-1.0, 20, None]], "missing or not finite"),
        (1, [[None, 5, None], [float("nan"), 6, None], [-1.0, 20, None]], "not finite"),
        (2, [[None, 6, None], [-1.0, 20, None]], "expected 0 to 1"),
    ],
)
def test_faulty_scores_are_refused(start: int, entries: list[list[object]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        response_log_probs(IDS, PROMPT_LEN, start, entries)
