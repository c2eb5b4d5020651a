"""A process that starts a trainer pool and waits to be killed: `python -m support.pools HF`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from spader_slime.local.pool import TrainerPool
from spader_slime.megatron.settings import LearnerSettings
from support.policies import make_rollout


def main() -> None:
    with TrainerPool(LearnerSettings(tp=2), Path(sys.argv[1])) as pool:
        pool.supervised(make_rollout(0))
        print(*pool.process_ids(), flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main()
