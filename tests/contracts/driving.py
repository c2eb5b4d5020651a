"""Scripts that need real slime, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from contracts.real_slime import checkout


def slime_or_skip() -> str:
    """Where slime lies; skips the test where it does not (no SLIME_SRC, not installed)."""
    slime = checkout()
    if slime is None:
        pytest.skip("slime not importable")
    return slime


def drive(script: Path, out: Path, *words: str, timeout_s: float = 300) -> Any:
    """The JSON that `script SLIME OUT WORDS...` leaves in `out`; skips where slime is not there."""
    command = [sys.executable, str(script), slime_or_skip(), str(out), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(out.read_text("utf-8"))
