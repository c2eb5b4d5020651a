"""A teacher's scores inside real slime (`running.py` says how to run it)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # slime compiles its formulas, which takes minutes on a CPU
TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from contracts import checks_distillation_ranks, checks_distillation_stages, running  # noqa: E402

CHECKS: dict[str, Callable[[], None]] = {
    "scores on DP 2 x CP 2 x TP 2": checks_distillation_ranks.on_three_axes,
    "scores on PP 2": checks_distillation_stages.on_stages,
    "slime's own reverse KL": checks_distillation_stages.opd,
}

if __name__ == "__main__":
    running.run(CHECKS)
