"""Our hooks inside real slime: its own loops, aborts, buffers, evaluation (`on_slime.py`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from contracts.real_slime import checkout

HERE = Path(__file__).resolve().parent
CHECKS = (
    "slices",
    "sample",
    "dump",
    "replay",
    "drill, sync",
    "drill, sync, off-policy masked",
    "limit, sync",
    "evaluation, sync",
    "drill, fully async",
    "limit, fully async",
    "evaluation, fully async",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    slime = checkout()
    if slime is None:
        pytest.skip("slime not importable")
    out = tmp_path_factory.mktemp("slime") / "results.json"
    command = [sys.executable, str(HERE / "on_slime.py"), slime, str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(out.read_text("utf-8"))
    assert tuple(found) == CHECKS
    return found


@pytest.mark.parametrize("check", CHECKS)
def test_inside_slime(results: dict[str, str], check: str) -> None:
    assert results[check] == ""
