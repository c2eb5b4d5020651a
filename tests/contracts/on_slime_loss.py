"""Our advantages and loss inside real slime (`running.py` says how to run it)."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # slime compiles its formulas, which takes minutes on a CPU
TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

import torch  # noqa: E402
from contracts import checks_loss, checks_loss_ranks, running  # noqa: E402
from contracts.real_slime import join_alone  # noqa: E402


def alone(check: Callable[[], None]) -> Callable[[], None]:
    """The check in a process grid of one."""

    def joined() -> None:
        with tempfile.TemporaryDirectory() as folder:
            torch.distributed.is_initialized() or join_alone(folder)
        check()

    return joined


CHECKS: dict[str, Callable[[], None]] = {
    "training steps on DP 2 x CP 2": checks_loss_ranks.training_steps,  # forks: before any thread
    "training steps on TP 2 x CP 2": lambda: checks_loss_ranks.training_steps(tp=2),
    "signature": checks_loss.signature,
    "no options": alone(checks_loss.no_options),
    "one-token steps": alone(checks_loss.one_token_steps),
    "one-step samples": alone(checks_loss.one_step_samples),
    "step options differ": alone(checks_loss.step_options_differ),
}

if __name__ == "__main__":
    running.run(CHECKS)
