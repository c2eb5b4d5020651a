"""Real process grids against one process: losses, gradients, scores and checkpoints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support.grids import gradients, on_grid, own_rows
from support.policies import make_rollout, with_steps

from spader_slime.cli import main
from spader_slime.megatron.learner import Learner
from spader_slime.megatron.settings import LearnerSettings

GRIDS = {
    "tp2": {"tp": 2},
    "pp2": {"pp": 2},
    "dp2": {"dp": 2},
    "tp2-pp2": {"tp": 2, "pp": 2},
}
BY_STEP = {"ratio": "step", "aggregate": "step"}


def settings(**grid: int) -> LearnerSettings:
    return LearnerSettings(
        kl_coef=0.1, entropy_coef=0.05, micro_tokens=90, temperature=0.8, lr=2e-3, **grid
    )


def measure(learner: Learner, folder: Path, other: Path | None) -> dict[str, Any]:
    """Everything that must not depend on the grid; `other` is another grid's checkpoint."""
    data = own_rows(learner, make_rollout(5))
    found: dict[str, Any] = {
        "log_probs": learner.log_probs(data),
        "policy": gradients(learner, lambda: learner.train(data)),
        "supervised": gradients(learner, lambda: learner.supervised(data)),
    }
    plain, learner.settings = learner.settings, replace(learner.settings, **BY_STEP)
    data = own_rows(learner, with_steps(make_rollout(5), 5))
    found["by step"] = gradients(learner, lambda: learner.train(data))
    learner.settings = plain
    found["steps"] = [learner.train(data), learner.supervised(data, "trajectory")]
    learner.save(folder / "checkpoints", 1, {"seen": 7})
    learner.export_hf(folder / "hf")
    found["after"] = learner.supervised(data)
    if other is not None:
        found["restored"] = learner.load(other)
        found["after_restored"] = learner.supervised(data)
    return found


@pytest.fixture(scope="module")
def alone(hf: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("alone")
    return folder, on_grid(settings(), hf, measure, folder, None)


@pytest.mark.parametrize("grid", GRIDS)
def test_a_grid_computes_what_one_process_computes(
    grid: str, hf: Path, alone: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, expected = alone
    found = on_grid(settings(**GRIDS[grid]), hf, measure, tmp_path, folder / "checkpoints")

    stride = GRIDS[grid].get("dp", 1)  # rank 0 holds every other trajectory
    for ours, theirs in zip(found["log_probs"], expected["log_probs"][::stride], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    for kind in ("policy", "supervised", "by step"):
        close(found[kind]["report"], expected[kind]["report"])
        assert found[kind]["gradients"].keys() == expected[kind]["gradients"].keys()
        for name, gradient in expected[kind]["gradients"].items():
            error = (found[kind]["gradients"][name] - gradient).norm() / gradient.norm()
            assert error < 1e-4, (kind, name)
    for ours, theirs in zip(found["steps"], expected["steps"], strict=True):
        close(ours, theirs)

    # The other grid's checkpoint: same weights, same moments, hence the same next step.
    assert found["restored"].state == {"seen": 7} and found["restored"].iteration == 1
    close(found["after_restored"], expected["after"])
    restored = on_grid(settings(), hf, resume, tmp_path / "checkpoints")
    close(restored, found["after"])
    exported_alike(tmp_path / "checkpoints", tmp_path / "hf", tmp_path / "exported")


def exported_alike(checkpoints: Path, gathered: Path, out: Path) -> None:
    """`spader-slime export` reads from disk what the processes gathered, bit by bit."""
    folders = ["--checkpoint", str(checkpoints), "--origin-hf", str(gathered), "--out", str(out)]
    assert main(["export", *folders]) == 0
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (out, gathered))
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


def resume(learner: Learner, checkpoints: Path) -> dict[str, float]:
    learner.load(checkpoints)
    return learner.supervised(make_rollout(5))


def close(found: dict[str, float], expected: dict[str, float]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name
