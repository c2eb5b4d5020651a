"""The embedded learner with a teacher: against a dense loop in float64, and on real grids."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.grids import gradients, on_grid, own_rows
from support.lessons import TEACHER, gated, taught
from support.policies import VOCAB, Rollout, make_rollout, with_steps
from support.slow_distillation import slow_forward_kl, slow_surrogate

from spader_slime.config import DistillationConfig
from spader_slime.megatron import passes
from spader_slime.megatron.batching import MicroBatch, read_trajectories
from spader_slime.megatron.decision_steps import steps_of
from spader_slime.megatron.distill import apply_teacher, scores_of
from spader_slime.megatron.grid import Place, is_last_stage, start_grid, stop_grid
from spader_slime.megatron.learner import Learner
from spader_slime.megatron.objectives import clipped_policy_gradient
from spader_slime.megatron.passes import Passes
from spader_slime.megatron.settings import LearnerSettings

TOP_K = 6
CONFIG = DistillationConfig(urls=[TEACHER], top_k=TOP_K, reverse_kl_coef=0.3)
BY_STEP = {"ratio": "step", "aggregate": "step"}


def with_teacher(data: Rollout, threshold: float = 2.5) -> Rollout:
    """A teacher's packed scores beside the rest, as they come to the trainer."""
    columns = zip(data["tokens"], data["loss_masks"], strict=True)
    scores = [taught(*pair, VOCAB, TOP_K, seed) for seed, pair in enumerate(columns)]
    data["teacher_log_probs"] = [gated(one, threshold).pack() for one in scores]
    return data


@pytest.fixture
def _grid() -> Iterator[None]:
    start_grid(LearnerSettings(), Place())
    yield
    stop_grid()


def toy_logits(table: torch.Tensor, tokens: torch.Tensor, places: Any) -> torch.Tensor:
    """A policy that looks at the last token only."""
    return table[tokens[places - 1]]


def toy_run(table: torch.Tensor) -> Callable[..., list[Any]]:
    """Stands in for Megatron's schedule."""

    def run(
        model: None, batches: Sequence[MicroBatch], consume: Any, train: bool
    ) -> list[dict[str, torch.Tensor]]:
        kept = []
        for batch in batches:
            parts = [toy_logits(table, t.tokens_T, t.acted_A + t.start) for t in batch.trajectories]
            loss, report = consume(batch, torch.cat(parts))
            loss.backward()
            kept.append(report)
        return kept

    return run


def slow_loss(data: Rollout, table: torch.Tensor, asked: LearnerSettings) -> dict[str, Any]:
    """Token by token."""
    steps = [own.step_T.tolist() for own in steps_of(data["returns"])]
    counts = [own.counts_S.tolist() for own in steps_of(data["returns"])]
    decisions, found = sum(map(len, counts)), {"loss": 0.0, "forward_kl": 0.0, "gated_share": 0.0}
    for i, said in enumerate(scores_of(data)):
        mask, response = data["loss_masks"][i].tolist(), data["response_lengths"][i]
        start, ids = len(data["tokens"][i]) - response, data["tokens"][i]
        trained = [t for t in range(response) if mask[t]]
        gaps, rows = {}, {}
        for t in trained:
            rows[t] = toy_logits(table, ids, start + t) / asked.temperature
            own = rows[t].log_softmax(-1)[ids[start + t]]
            gaps[t] = own - float(data["log_probs"][i][t])
        for t in trained:
            same = [u for u in trained if steps[i][u] == steps[i][t]]
            mean = torch.stack([gaps[u] for u in same]).mean()
            log_ratio = mean if asked.ratio == "step" else gaps[t]
            share = 1 / len(trained) / len(steps)
            if asked.aggregate == "step":
                share = 1 / len(same) / decisions
            clip = (asked.clip_low, asked.clip_high)
            found["loss"] += share * slow_surrogate(
                log_ratio, float(data["advantages"][i][t]), clip
            )
            if said.gate_T[t]:
                value = share * slow_forward_kl(rows[t], said, t, asked.tail)
                found["forward_kl"] += value.item()
                found["gated_share"] += share
                found["loss"] += asked.forward_kl_coef * value
    return found


@pytest.mark.usefixtures("_grid")
@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 9999),
    st.integers(1, 300),
    st.sampled_from(["drop", "keep"]),
    st.sampled_from([{}, {"ratio": "step"}, {"aggregate": "step"}, BY_STEP]),
    st.sampled_from([1.0, 0.7]),
    st.sampled_from([1.0, 4.0, 9.0]),
)
def test_loss_and_gradient(
    seed: int, budget: int, tail: str, options: Any, temperature: float, threshold: float
) -> None:
    """However tokens are put into micro-batches, gated, or grouped; 9 nats gate none."""
    data = with_teacher(with_steps(make_rollout(seed, 4, 15), seed), threshold)
    data["log_probs"] = data["rollout_log_probs"]
    apply_teacher(data, CONFIG, "log_probs")
    asked = LearnerSettings(
        forward_kl_coef=0.7, tail=tail, micro_tokens=budget, temperature=temperature, **options
    )
    decisions = sum(len(own.counts_S) for own in steps_of(data["returns"]))
    table = torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(seed))
    exact, table = table.double().requires_grad_(), table.requires_grad_()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(passes, "run", toy_run(table))
        reports = Passes(None, asked, VOCAB).gradients(  # type: ignore[arg-type]
            read_trajectories(data),
            clipped_policy_gradient(asked, data, 4, decisions),
            scores_of(data),
        )
    expected = slow_loss(data, exact, asked)
    expected["loss"].backward()
    expected["loss"] = expected["loss"].item()
    for name, value in expected.items():
        total = sum(float(report[name]) for report in reports)
        assert total == pytest.approx(value, rel=1e-5, abs=1e-6), name
    assert table.grad is not None and exact.grad is not None
    assert (table.grad - exact.grad).norm() <= 1e-5 * exact.grad.norm()


GRIDS = {"tp2": {"tp": 2}, "pp2": {"pp": 2}}
VARIANTS: dict[str, dict[str, Any]] = {"drop": {}, "keep": {"tail": "keep"}, "by step": BY_STEP}


def base(**grid: int) -> LearnerSettings:
    return LearnerSettings(forward_kl_coef=0.7, micro_tokens=90, temperature=0.8, **grid)


def measure(learner: Learner) -> dict[str, Any]:
    """Reports and gradients by variant; the hook runs where slime calls it."""
    plain, found = learner.settings, {}
    for name, options in VARIANTS.items():
        data = own_rows(learner, with_teacher(with_steps(make_rollout(5), 5)))
        if is_last_stage():
            apply_teacher(data, CONFIG, "rollout_log_probs")
        learner.settings = replace(plain, **options)
        found[name] = gradients(learner, lambda: learner.train(data))  # noqa: B023
    return found


@pytest.fixture(scope="module")
def alone(hf: Path) -> dict[str, Any]:
    found: dict[str, Any] = on_grid(base(), hf, measure)
    return found


@pytest.mark.parametrize("grid", GRIDS)
def test_a_grid_computes_what_one_process_computes(
    grid: str, hf: Path, alone: dict[str, Any]
) -> None:
    found = on_grid(base(**GRIDS[grid]), hf, measure)
    for kind, expected in alone.items():
        assert found[kind]["report"] == pytest.approx(expected["report"], rel=1e-4, abs=1e-6)
        for name, gradient in expected["gradients"].items():
            error = (found[kind]["gradients"][name] - gradient).norm() / gradient.norm()
            assert error < 1e-4, (kind, name)


def test_the_numbers_are_those_of_the_model_in_float64(hf: Path, alone: dict[str, Any]) -> None:
    """The teacher's ids are looked up at the logits that predict their token."""
    from transformers import AutoModelForCausalLM

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoModelForCausalLM.from_pretrained(hf, dtype=torch.float64)
    data = with_teacher(make_rollout(5))
    apply_teacher(data, CONFIG, "rollout_log_probs")
    share, totals = 0.0, {"drop": 0.0, "keep": 0.0}
    for i, said in enumerate(scores_of(data)):
        start = len(data["tokens"][i]) - data["response_lengths"][i]
        with torch.no_grad():
            logits = model(data["tokens"][i][None]).logits[0] / 0.8
        for t in said.gate_T.nonzero().flatten().tolist():
            weight = 1 / int(data["loss_masks"][i].sum()) / len(data["tokens"])
            share += weight
            for tail in totals:
                totals[tail] += weight * float(
                    slow_forward_kl(logits[start + t - 1], said, t, tail)
                )
    assert 0.1 < share < 0.9
    for tail, total in totals.items():
        report = alone[tail]["report"]
        assert report["gated_share"] == pytest.approx(share, rel=1e-5)
        assert report["gated_forward_kl"] == pytest.approx(total / share, rel=1e-4)
