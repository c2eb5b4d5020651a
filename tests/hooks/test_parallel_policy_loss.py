"""The loss hook under data and context parallelism, in real processes, against float64 loops."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import pytest
import torch
from support.step_loss import (
    OPTIMIZER_STEPS,
    SHAPES,
    Coefficients,
    make_data,
    make_table,
    slow_loss,
)
from support.step_ranks import on_ranks

from spader_slime.algorithms.zigzag import owned_rows

OPTIONS = [("step", "token"), ("token", "step"), ("step", "step")]
LAYOUTS = [(1, 1), (2, 2), (1, 4)]  # data x context parallel
PLACES = list(itertools.product(OPTIONS, range(len(OPTIMIZER_STEPS))))


@cache
def expected(options: tuple[str, str], number: int) -> tuple[dict[str, float], torch.Tensor]:
    table = make_table(torch.float64)
    asked = Coefficients()
    loss, metrics = slow_loss(make_data(), table, OPTIMIZER_STEPS[number], *options, asked)
    loss.backward()
    assert table.grad is not None
    return metrics, table.grad


@pytest.fixture(scope="module", params=LAYOUTS, ids=lambda layout: "dp{}-cp{}".format(*layout))
def found(request: pytest.FixtureRequest) -> list[Any]:
    return on_ranks(*request.param, OPTIONS, Coefficients())


def test_loss_and_gradient_are_those_of_one_process(found: list[Any]) -> None:
    assert len(found) == len(PLACES)
    for (options, number), (metrics, gradient) in zip(PLACES, found, strict=True):
        exact, exact_gradient = expected(options, number)
        assert metrics == pytest.approx(exact, rel=1e-5, abs=1e-7), (options, number)
        error = (gradient.double() - exact_gradient).norm() / exact_gradient.norm()
        assert error <= 1e-5, (options, number)


def test_the_layouts_hold_the_hard_cases() -> None:
    """Ranks without a token, steps over several ranks; ratios that are clipped both ways."""
    shapes = [(p + sum(map(sum, turns)), sum(map(sum, turns))) for p, turns, _ in SHAPES]
    own = [[owned_rows(*shape, rank, 4) for rank in range(4)] for shape in shapes]
    assert any(all(a == b for a, b in rows) for sample in own for rows in sample)
    first_step = range(20)  # of the fourth sample
    owners = {
        rank
        for rank, rows in enumerate(own[3])
        for a, b in rows
        if set(first_step) & {*range(a, b)}
    }
    assert len(owners) > 1
    assert expected(("step", "step"), 0)[0]["pg_clipfrac"] > 0


def test_the_options_differ() -> None:
    gradients = [expected(options, 0)[1] for options in [*OPTIONS, ("token", "token")]]
    for one, other in itertools.combinations(gradients, 2):
        assert (one - other).norm() > 0.05 * one.norm()
