"""The loss hook inside real slime (`on_slime_loss.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from contracts.driving import drive

HERE = Path(__file__).resolve().parent
CHECKS = (
    "training steps on DP 2 x CP 2",
    "training steps on TP 2 x CP 2",
    "signature",
    "no options",
    "one-token steps",
    "one-step samples",
    "step options differ",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    out = tmp_path_factory.mktemp("slime") / "results.json"
    found: dict[str, str] = drive(HERE / "on_slime_loss.py", out)
    assert tuple(found) == CHECKS
    return found


@pytest.mark.parametrize("check", CHECKS)
def test_inside_slime(results: dict[str, str], check: str) -> None:
    assert results[check] == ""
