"""Times of alternatives, taken in turns so that a busy machine slows all of them alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any


def interleaved(
    calls: dict[str, Callable[[], Any]], rounds: int, inner: dict[str, int] | None = None
) -> dict[str, float]:
    """Seconds of one call of each: its fastest of `rounds` rounds in which every one has its turn.

    The fastest, as whatever else the machine does only ever adds.

    `inner` says how many calls make one measurement (default 1): more for the very short ones.
    """
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, call in calls.items():
                repeats = (inner or {}).get(name, 1)
                start = time.perf_counter()
                for _ in range(repeats):
                    call()
                taken[name].append((time.perf_counter() - start) / repeats)
    finally:
        gc.enable()
    return {name: min(times) for name, times in taken.items()}


def table(header: list[str], rows: list[list[str]]) -> str:
    """Columns flush right, the first flush left."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for first, *others in [header, ["-" * width for width in widths], *rows]:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]))
    return "\n".join(lines)
