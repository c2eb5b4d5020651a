"""The loss hook with a teacher on every context-parallel rank, against a slow loop in float64.

In one process: slime's own part is played by `support.step_ranks`; `contracts` has the real one.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from support import step_ranks
from support.lessons import distilling
from support.step_loss import Coefficients, Data, make_data, make_table, slow_loss
from support.taught_data import THRESHOLD, TOP_K, slow_lesson, source_scores, subtracted

from spader_slime import adapter, hooks
from spader_slime.algorithms.zigzag import slice_response
from spader_slime.errors import DataError
from spader_slime.megatron.grid import Place, start_grid, stop_grid
from spader_slime.megatron.losses import k3_kl
from spader_slime.megatron.settings import LearnerSettings

REVERSE, FORWARD = 0.3, 0.7
SAMPLES = list(range(8))
DATA = make_data()


@pytest.fixture(autouse=True)
def _host(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(adapter, "measure", step_ranks.measure)
    monkeypatch.setattr(adapter, "response_places", step_ranks.places)
    monkeypatch.setattr(adapter, "divergence", lambda args, now, ref, ratio: k3_kl(now, ref))
    start_grid(LearnerSettings(), Place())
    yield
    stop_grid()


def slime_args(tail: str, ratio: str, aggregate: str, **options: Any) -> Namespace:
    args = step_ranks.slime_args(ratio, aggregate, Coefficients())
    fixed = {"top_k": TOP_K, "tail": tail, "entropy_threshold": THRESHOLD}
    fixed |= {"reverse_kl_coef": REVERSE, "forward_kl_coef": FORWARD}
    args.spader |= distilling(**(fixed | options))
    args.rollout_temperature, args.use_opd = 1.0, False
    return args


def loss_of(
    args: Namespace, table: torch.Tensor, rank: int, size: int
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """From a rank's data, through both hooks."""
    data: Data = step_ranks.rank_data(DATA, 1, rank, size, 0)
    lengths = zip(data["total_lengths"], data["response_lengths"], strict=True)
    packed = [said.pack() for said in source_scores(DATA, THRESHOLD)]
    data["teacher_log_probs"] = [
        slice_response(rows, *length, rank, size)
        for rows, length in zip(packed, lengths, strict=True)
    ]
    data |= {"micro_batch_indices": [SAMPLES], "num_microbatches": [1], "global_batch_sizes": [8]}
    hooks.compute_advantages(args, data)
    data["unconcat_tokens"] = data.pop("tokens")
    logits = step_ranks.pack_logits(DATA, table, SAMPLES, rank, size)
    mean = step_ranks.token_mean(data, rank, size)
    loss, report = hooks.policy_loss(args, data, logits, mean)
    return loss / 8, {name: value / 8 for name, value in report.items()}


@pytest.mark.parametrize(
    ("tail", "options", "size"),
    [
        ("keep", ("token", "token"), 1),
        ("keep", ("token", "token"), 2),
        ("keep", ("token", "token"), 4),
        ("keep", ("token", "step"), 4),
        ("drop", ("token", "step"), 2),
        ("drop", ("step", "token"), 1),
        ("keep", ("step", "step"), 1),
    ],
)
def test_loss_and_gradient(
    tail: str, options: tuple[str, str], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    args, table, found = slime_args(tail, *options), make_table(torch.float32), dict[str, float]()
    for rank in range(size):
        place = (rank, size)
        monkeypatch.setattr(hooks, "context_place", lambda place=place: place)
        monkeypatch.setattr(step_ranks, "context_place", lambda place=place: place)
        loss, report = loss_of(args, table, rank, size)
        loss.backward()
        for name, value in report.items():
            found[name] = found.get(name, 0.0) + float(value)
    exact, scores = make_table(torch.float64), source_scores(DATA, THRESHOLD)
    told = subtracted(DATA, scores, REVERSE)
    whole, expected = slow_loss(told, exact, SAMPLES, *options, Coefficients())
    value, more = slow_lesson(DATA, exact, SAMPLES, options[1], scores, tail)
    whole = whole + FORWARD * value
    whole.backward()
    assert found == pytest.approx(expected | more | {"loss": whole.item()}, rel=1e-5, abs=1e-6)
    assert table.grad is not None and exact.grad is not None
    assert (table.grad - exact.grad).norm() <= 1e-5 * exact.grad.norm()


def test_without_a_tail_or_steps_the_rest_is_slimes_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """slime's loss gets the logits, and the forward KL comes on top of what it says."""

    def own(args: Namespace, batch: Data, logits: torch.Tensor, mean: Any) -> Any:
        value = 3 * logits[0, :, 0].sum()
        return value, {"loss": value.detach(), "pg_loss": value.detach()}

    monkeypatch.setattr(adapter, "policy_loss", own)
    args, table = slime_args("drop", "token", "token"), make_table(torch.float32)
    loss, report = loss_of(args, table, 0, 1)
    loss.backward()
    exact, scores = make_table(torch.float64), source_scores(DATA, THRESHOLD)
    value, more = slow_lesson(DATA, exact, SAMPLES, "token", scores, "drop")
    logits = step_ranks.pack_logits(DATA, exact, SAMPLES, 0, 1)
    whole = 3 / 8 * logits[0, :, 0].sum() + FORWARD * value
    whole.backward()
    assert loss.item() == pytest.approx(whole.item(), abs=1e-5)
    assert report["loss"].item() == pytest.approx(whole.item(), abs=1e-5)
    for name in ("forward_kl", "gated_share"):
        assert report[name].item() == pytest.approx(more[name], rel=1e-5)
    assert table.grad is not None and exact.grad is not None
    assert (table.grad - exact.grad).norm() <= 1e-5 * exact.grad.norm()


def test_without_a_coefficient_there_is_no_lesson(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_places(*inputs: Any) -> Any:
        raise AssertionError("nobody asks")

    monkeypatch.setattr(adapter, "response_places", no_places)
    args = slime_args("keep", "token", "token", forward_kl_coef=0.0)
    monkeypatch.setattr(adapter, "policy_loss", lambda *inputs: (torch.zeros(()), {"loss": 0.0}))
    assert "forward_kl" not in loss_of(args, make_table(torch.float32), 0, 1)[1]


def test_without_the_advantage_hook_the_loss_says_what_is_missing() -> None:
    data = step_ranks.rank_data(DATA, 1, 0, 1, 0)
    data["teacher_log_probs"] = [said.pack() for said in source_scores(DATA, THRESHOLD)]
    data["unconcat_tokens"] = data.pop("tokens")
    logits = step_ranks.pack_logits(DATA, make_table(torch.float32), SAMPLES, 0, 1)
    with pytest.raises(DataError, match=r"teacher_scores.*hooks\.compute_advantages"):
        hooks.policy_loss(slime_args("drop", "token", "token"), data, logits, None)
