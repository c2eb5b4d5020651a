"""Checks that run inside real slime.

    python tests/contracts/on_slime.py SLIME_CHECKOUT OUT.json [CHECK ...]

Writes `{check: "" or what went wrong}`. Needs what `record_seams.py` needs.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from contracts.checks_arrays import dump, replay, sample_stand_in, slices  # noqa: E402
from contracts.checks_loops import drill, evaluation, limit  # noqa: E402
from contracts.real_slime import use_slime  # noqa: E402

CHECKS: dict[str, Callable[[], None]] = {
    "slices": slices,
    "sample": sample_stand_in,
    "dump": dump,
    "replay": replay,
    "drill, sync": lambda: drill("sync", mask=False),
    "drill, sync, off-policy masked": lambda: drill("sync", mask=True),
    "limit, sync": lambda: limit("sync"),
    "evaluation, sync": lambda: evaluation("sync"),
    "drill, fully async": lambda: drill("fully_async", mask=False),
    "limit, fully async": lambda: limit("fully_async"),
    "evaluation, fully async": lambda: evaluation("fully_async"),
}


def main(checkout: str, out: Path) -> None:
    use_slime(checkout)
    results = {}
    chosen = sys.argv[3:] or CHECKS
    for name, check in ((name, CHECKS[name]) for name in chosen):
        try:
            check()
            results[name] = ""
        except Exception:
            results[name] = traceback.format_exc()
        stop_worker()
        print(name, "failed" if results[name] else "passed", flush=True)
    out.write_text(json.dumps(results), "utf-8")


def stop_worker() -> None:
    """slime's fully-async worker outlives a rollout; the next check wants its own."""
    import_module("slime.rollout.fully_async_rollout")._stop_global_worker()


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    main(sys.argv[1], Path(sys.argv[2]))
    os._exit(0)  # slime keeps threads alive
