"""Memory of this process and everything it started."""

from __future__ import annotations

from contextlib import suppress

import psutil


def tree_memory_mb() -> float:
    """Resident megabytes of the whole process tree (shared pages count in every process)."""
    own = psutil.Process()
    total = 0
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            total += process.memory_info().rss
    return total / 2**20
