"""Learning rate, clipping and Adam itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.policies import make_rollout

from spader_slime.megatron.learner import Learner
from spader_slime.megatron.optimizer import learning_rate
from spader_slime.megatron.settings import LearnerSettings


@pytest.fixture
def learner(hf: Path) -> Iterator[Learner]:
    settings = LearnerSettings(lr=1e-2, warmup_steps=3, grad_clip=0.5, weight_decay=0.1)
    made = Learner(settings, hf)
    yield made
    made.close()


def test_warm_up_plateau_and_decay() -> None:
    asked = LearnerSettings(
        lr=1.0, warmup_steps=4, lr_decay="linear", decay_start=6, decay_steps=10, min_lr=0.2
    )
    rates = [learning_rate(asked, step) for step in range(13)]
    expected = [0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2]
    assert rates == pytest.approx(expected)
    asked.lr_decay = "cosine"
    assert learning_rate(asked, 8) == pytest.approx(0.2 + 0.8 * (1 + math.cos(math.pi / 2)) / 2)
    assert learning_rate(asked, 10) == pytest.approx(0.2)
    asked.lr_decay = "constant"
    assert learning_rate(asked, 1000) == 1.0


def test_a_step_is_adamws_with_the_clipped_gradient(learner: Learner) -> None:
    """Against torch's own optimizer and clipping on copies of the same gradients."""
    data, optimizer = make_rollout(0), learner.optimizer
    ours = list(optimizer.named.values())
    copies = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    groups = [
        {"params": [p for p in copies if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in copies if p.dim() == 1], "weight_decay": 0.0},
    ]
    reference = torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-8, foreach=False)
    collect = optimizer.collect

    def collect_and_copy() -> None:
        collect()
        for parameter, copy in zip(ours, copies, strict=True):
            assert parameter.grad is not None
            copy.grad = parameter.grad.clone()

    optimizer.collect = collect_and_copy  # type: ignore[method-assign]
    for step in range(4):
        report = learner.supervised(data)
        norm = float(torch.nn.utils.clip_grad_norm_(copies, 0.5))
        assert report["grad_norm"] == pytest.approx(norm, rel=1e-4) and norm > 0.5
        assert report["lr"] == pytest.approx(1e-2 * min(1, (step + 1) / 3))
        for group in reference.param_groups:
            group["lr"] = report["lr"]
        reference.step()
    for parameter, copy in zip(ours, copies, strict=True):
        torch.testing.assert_close(parameter, copy, rtol=1e-4, atol=1e-5)


def test_no_clipping_below_the_bound(hf: Path) -> None:
    first_moments = []
    for bound in (None, 1e6):
        learner = Learner(LearnerSettings(grad_clip=bound), hf)
        learner.supervised(make_rollout(0))
        named = learner.optimizer.named.values()
        first_moments.append([learner.optimizer.moment(p, "exp_avg").clone() for p in named])
        learner.close()
    assert all(map(torch.equal, *first_moments))


@pytest.mark.parametrize("scale", [0.0, 0.1])
def test_embeddings_have_a_learning_rate_of_their_own(hf: Path, scale: float) -> None:
    """Adam's first step moves every entry with a gradient by the learning rate."""
    learner = Learner(LearnerSettings(lr=1e-2, embedding_lr_scale=scale, grad_clip=None), hf)
    before = {n: p.detach().clone() for n, p in learner.optimizer.named.items()}
    learner.supervised(make_rollout(0))
    for name, parameter in learner.optimizer.named.items():
        largest = (parameter.detach() - before[name]).abs().max().item()
        rate = 1e-2 * (scale if "embedding" in name else 1.0)
        assert largest == pytest.approx(rate, rel=0.01)
    learner.close()
