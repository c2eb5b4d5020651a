"""Entropies, gates and divergences against slow float64 loops, and gradcheck."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from spader_slime.algorithms.distillation import (
    SMALLEST_TAIL,
    dense_forward_kl,
    entropy,
    entropy_from_top_k,
    entropy_gap,
    entropy_threshold,
    forward_kl,
    reverse_kl,
)

CASE = (st.integers(0, 10_000), st.integers(1, 6), st.integers(2, 30), st.sampled_from([0.3, 3.0]))


def log_probs(seed: int, rows: int, vocab: int, scale: float) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, vocab, generator=source, dtype=torch.float64) * scale
    return logits.log_softmax(-1)


@given(*CASE, st.data())
def test_entropy_and_its_bound(
    seed: int, rows: int, vocab: int, scale: float, data: st.DataObject
) -> None:
    whole = log_probs(seed, rows, vocab, scale)
    k = data.draw(st.integers(1, vocab))
    top = whole.topk(k).values
    exact, found, gap = entropy(whole), entropy_from_top_k(top), entropy_gap(top, vocab)
    for row in range(rows):
        slow = -sum(math.exp(p) * p for p in whole[row].tolist())
        kept = [math.exp(p) for p in top[row].tolist()]
        rest = max(0.0, 1.0 - sum(kept))
        bucketed = -sum(p * math.log(p) for p in kept) - (rest * math.log(rest) if rest else 0.0)
        assert exact[row].item() == pytest.approx(slow, abs=1e-9)
        assert found[row].item() == pytest.approx(bucketed, abs=1e-9)
        assert found[row] - 1e-9 <= exact[row] <= found[row] + gap[row] + 1e-9


def test_the_bound_is_reached_by_an_even_tail() -> None:
    probs = torch.tensor([[0.5, *[0.5 / 7] * 7]], dtype=torch.float64)
    top = probs.log()[:, :1]
    assert entropy_gap(top, 8).item() == pytest.approx(0.5 * math.log(7))
    gap = entropy(probs.log()) - entropy_from_top_k(top)
    assert gap.item() == pytest.approx(0.5 * math.log(7))


def test_certain_distributions_have_no_entropy() -> None:
    certain = torch.tensor([[0.0, -math.inf, -math.inf]])
    assert entropy(certain).item() == 0.0
    assert entropy_from_top_k(certain[:, :2]).item() == 0.0
    rounded = torch.tensor([[1e-7, -20.0]])  # a server's log-prob may round past 0
    assert entropy_from_top_k(rounded).isfinite().all()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(0, 20))
def test_quantile_gates_the_most_uncertain(values: list[int], twentieths: int) -> None:
    threshold = entropy_threshold(torch.tensor(values, dtype=torch.float64), twentieths / 20)
    gated = [v for v in values if v > threshold]
    below = [v for v in values if v <= threshold]
    assert not gated or not below or min(gated) > max(below)
    assert len(below) * 20 >= twentieths * len(values)  # a share `quantile` is left out at least
    fewer = [v for v in values if v < threshold]
    assert len(fewer) * 20 < max(1, twentieths * len(values))  # and no threshold below does that


def test_quantile_without_ties_and_at_its_ends() -> None:
    values = torch.arange(10.0)
    assert [int((values > entropy_threshold(values, q)).sum()) for q in (0, 0.7, 0.8, 1)] == [
        10,
        3,
        2,
        0,
    ]
    assert entropy_threshold(values[:0], 0.5) == math.inf


@given(*CASE, st.data())
def test_forward_kl_equals_the_slow_loop(
    seed: int, rows: int, vocab: int, scale: float, data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, vocab - 1))
    temperature = data.draw(st.sampled_from([1.0, 0.7]))
    top = log_probs(seed, rows, vocab, scale).topk(k)
    logits = log_probs(seed + 1, rows, vocab, scale)
    for tail in ("drop", "keep"):
        found = dense_forward_kl(logits, top.indices, top.values, tail, temperature)
        for row in range(rows):
            named = top.indices[row].tolist()
            teacher = [math.exp(p) for p in top.values[row].tolist()]
            student = softmax([z / temperature for z in logits[row].tolist()])
            slow = slow_forward_kl(teacher, student, named, tail)
            assert found[row].item() == pytest.approx(slow, rel=1e-7, abs=1e-9)


def softmax(scores: list[float]) -> list[float]:
    weights = [math.exp(z - max(scores)) for z in scores]
    return [w / sum(weights) for w in weights]


def slow_forward_kl(
    teacher: list[float], student: list[float], named: list[int], tail: str
) -> float:
    p, q = list(teacher), [student[i] for i in named]
    if tail == "drop":
        p, q = [x / sum(p) for x in p], [x / sum(q) for x in q]
    else:
        p.append(1 - sum(p))
        rest = sum(x for i, x in enumerate(student) if i not in named)
        q.append(max(rest, SMALLEST_TAIL))  # as documented
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


@pytest.mark.parametrize("tail", ["drop", "keep"])
@pytest.mark.parametrize("k", [1, 3, 8])
def test_gradients(tail: str, k: int) -> None:
    top = log_probs(1, 4, 9, 1.0).topk(k)
    logits = log_probs(2, 4, 9, 1.0).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda z: dense_forward_kl(z, top.indices, top.values, tail, 0.8), (logits,)
    )


def test_divergence_of_equals_is_zero_and_a_vanished_tail_stays_finite() -> None:
    top = log_probs(2, 3, 12, 2.0).topk(5).values
    for tail in ("drop", "keep"):
        assert forward_kl(top, top, tail).tolist() == pytest.approx([0.0] * 3, abs=1e-12)
    collapsed = torch.tensor([[0.0, -200.0]], requires_grad=True)
    value = forward_kl(torch.tensor([[0.4, 0.5]]).log(), collapsed, "keep")
    value.sum().backward()
    assert value.isfinite().all() and collapsed.grad is not None
    assert collapsed.grad.isfinite().all()


def test_reverse_kl_averages_to_the_divergence() -> None:
    student, teacher = log_probs(3, 2, 7, 1.0).unbind(0)
    expected = sum(math.exp(s) * (s - t) for s, t in zip(student, teacher, strict=True))
    assert (student.exp() @ reverse_kl(student, teacher)).item() == pytest.approx(float(expected))
