"""Our hooks inside real slime: samples, dumps, loops (`running.py` says how to run it)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from contracts import running  # noqa: E402
from contracts.checks_arrays import replay, sample_stand_in, slices  # noqa: E402
from contracts.checks_dump import dump  # noqa: E402
from contracts.checks_loops import drill, evaluation, limit, taught  # noqa: E402

CHECKS: dict[str, Callable[[], None]] = {
    "slices": slices,
    "sample": sample_stand_in,
    "dump": dump,
    "replay": replay,
    "drill, sync": lambda: drill("sync", mask=False),
    "drill, sync, off-policy masked": lambda: drill("sync", mask=True),
    "teacher drill, sync": lambda: taught("sync"),
    "limit, sync": lambda: limit("sync"),
    "evaluation, sync": lambda: evaluation("sync"),
    "drill, fully async": lambda: drill("fully_async", mask=False),
    "teacher drill, fully async": lambda: taught("fully_async"),
    "limit, fully async": lambda: limit("fully_async"),
    "evaluation, fully async": lambda: evaluation("fully_async"),
}


def stop_worker() -> None:
    """slime's fully-async worker outlives a rollout; the next check wants its own."""
    import_module("slime.rollout.fully_async_rollout")._stop_global_worker()


if __name__ == "__main__":
    running.run(CHECKS, stop_worker)
