"""What else the machine does while something is measured."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path


class Others:
    """How many cores others kept busy."""

    def __init__(self) -> None:
        self._began, self._busy, self._own = time.monotonic(), self._all(), self._ours()

    def cores(self) -> float:
        """Mean since this was made."""
        taken = self._all() - self._busy - (self._ours() - self._own)
        return max(0.0, taken / (time.monotonic() - self._began))

    def _all(self) -> float:
        user, nice, system, _, _, *rest = Path("/proc/stat").read_text().split()[1:9]
        return sum(map(int, (user, nice, system, *rest))) / os.sysconf("SC_CLK_TCK")

    def _ours(self) -> float:
        kinds = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in kinds)
