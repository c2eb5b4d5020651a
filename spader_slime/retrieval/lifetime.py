"""End this process when the one that started it is gone, even if that was killed."""

from __future__ import annotations

import os
import signal
import threading
import time

_POLL_S = 0.5


def exit_with_parent() -> None:
    """Watch the parent from a daemon thread; terminate this process once it has another."""
    parent = os.getppid()
    threading.Thread(target=_watch, args=(parent,), daemon=True, name="parent-watch").start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)
