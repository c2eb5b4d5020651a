"""Our hooks inside real slime: its own loops, aborts, buffers, evaluation (`on_slime.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from contracts.driving import drive

HERE = Path(__file__).resolve().parent
CHECKS = (
    "slices",
    "sample",
    "dump",
    "replay",
    "drill, sync",
    "drill, sync, off-policy masked",
    "teacher drill, sync",
    "limit, sync",
    "evaluation, sync",
    "drill, fully async",
    "teacher drill, fully async",
    "limit, fully async",
    "evaluation, fully async",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    out = tmp_path_factory.mktemp("slime") / "results.json"
    found: dict[str, str] = drive(HERE / "on_slime.py", out, timeout_s=600)
    assert tuple(found) == CHECKS
    return found


@pytest.mark.parametrize("check", CHECKS)
def test_inside_slime(results: dict[str, str], check: str) -> None:
    assert results[check] == ""
