"""Log-probabilities and entropy against float64 autograd; sharded ones are in test_grids."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from spader_slime.megatron import vocab_parallel
from spader_slime.megatron.grid import Place, start_grid, stop_grid
from spader_slime.megatron.settings import LearnerSettings
from spader_slime.megatron.vocab_parallel import log_probs_and_entropy


@pytest.fixture(scope="module", autouse=True)
def _grid() -> Iterator[None]:
    start_grid(LearnerSettings(), Place())
    yield
    stop_grid()


def dense(logits: Tensor, targets: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    scores = (logits / temperature).log_softmax(-1)
    return scores.gather(1, targets[:, None]).squeeze(1), -(scores.exp() * scores).sum(1)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 1000),
    st.integers(1, 30),
    st.integers(2, 40),
    st.integers(0, 3),
    st.sampled_from([1.0, 0.7, 2.0]),
    st.sampled_from([1.0, 30.0]),
)
def test_values_and_gradients(
    seed: int, rows: int, vocab: int, padding: int, temperature: float, scale: float
) -> None:
    source = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, vocab, generator=source, dtype=torch.float64) * scale
    targets = torch.randint(vocab, (rows,), generator=source)
    weights = torch.randn(2, rows, generator=source, dtype=torch.float64)
    padded = torch.cat([logits, 50 * torch.rand(rows, padding, dtype=torch.float64)], 1)

    expected_in = logits.clone().requires_grad_()
    expected = dense(expected_in, targets, temperature)
    (expected[0] @ weights[0] + expected[1] @ weights[1]).backward()
    found_in = padded.clone().requires_grad_()
    found = log_probs_and_entropy(found_in.clone(), targets, None, vocab, temperature)
    (found[0] @ weights[0] + found[1] @ weights[1]).backward()

    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    assert found_in.grad is not None and expected_in.grad is not None
    torch.testing.assert_close(found_in.grad[:, :vocab], expected_in.grad, rtol=1e-7, atol=1e-9)
    assert not found_in.grad[:, vocab:].any()


@pytest.mark.parametrize("entries", [1, 7, 1 << 20])
def test_pieces_make_no_difference(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    logits, targets = torch.randn(9, 5), torch.randint(5, (9,))
    monkeypatch.setattr(vocab_parallel, "CHUNK", entries)
    leaf = logits.clone().requires_grad_()
    log_probs, entropy = log_probs_and_entropy(leaf.clone(), targets, None, 5)
    (log_probs.sum() + entropy.sum()).backward()
    expected_in = logits.clone().requires_grad_()
    expected = dense(expected_in, targets, 1.0)
    (expected[0].sum() + expected[1].sum()).backward()
    torch.testing.assert_close(log_probs, expected[0])
    torch.testing.assert_close(leaf.grad, expected_in.grad)


def test_extreme_logits_give_no_nan() -> None:
    leaf = torch.tensor([[0.0, -1e4, 1e4], [1e4, 1e4, -1e4]], requires_grad=True)
    log_probs, entropy = log_probs_and_entropy(leaf.clone(), torch.tensor([2, 1]), None, 3)
    (log_probs.sum() + entropy.sum()).backward()
    assert log_probs.tolist() == pytest.approx([0.0, -0.6931472])
    assert entropy.tolist() == pytest.approx([0.0, 0.6931472])
    assert leaf.grad is not None and bool(leaf.grad.isfinite().all())


def test_without_entropy() -> None:
    logits, targets = torch.randn(4, 6), torch.randint(6, (4,))
    found, entropy = log_probs_and_entropy(logits.clone(), targets, None, 6, with_entropy=False)
    torch.testing.assert_close(found, dense(logits, targets, 1.0)[0])
    assert not entropy.any()


def test_no_rows() -> None:
    log_probs, entropy = log_probs_and_entropy(
        torch.empty(0, 5), torch.empty(0, dtype=torch.long), None, 5
    )
    assert len(log_probs) == len(entropy) == 0
