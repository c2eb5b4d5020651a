"""slime's own plugin contracts, met by our hooks (`running.py` says how to run it)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from contracts import checks_plugin_contracts as checks  # noqa: E402
from contracts import running  # noqa: E402

CHECKS: dict[str, Callable[[], None]] = {
    "rollout function": checks.rollout_function,
    "evaluation function": checks.evaluation_function,
    "generate function": checks.generate_function,
    "dynamic sampling filter": checks.dynamic_sampling_filter,
    "group reward": checks.group_reward,
    "reward of one sample": checks.single_reward,
    "reward post-process": checks.reward_post_process,
    "call sites": checks.call_sites,
}

if __name__ == "__main__":
    sys.path.append(str(Path(sys.argv[1]) / "tests"))
    running.run(CHECKS)
