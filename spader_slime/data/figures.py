"""Distributions of small counts, such as answers per question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

BINS = ((1, 1), (2, 2), (3, 5), (6, 10), (11, 20), (21, 50), (51, None))


def distribution(counts: Mapping[int, int]) -> dict[str, Any]:
    """min, median, mean, max and the number of items per bin of `BINS`.

    Args:
        counts: value -> how many items have it.
    """
    items = sum(counts.values())
    if not items:
        return {"items": 0}
    return {
        "items": items,
        "total": sum(value * n for value, n in counts.items()),
        "min": min(counts),
        "median": _median(counts, items),
        "mean": round(sum(value * n for value, n in counts.items()) / items, 3),
        "max": max(counts),
        "bins": {_name(*bin): _within(counts, *bin) for bin in BINS if _within(counts, *bin)},
    }


def _median(counts: Mapping[int, int], items: int) -> int:
    """The lower of the two middle values."""
    passed = 0
    for value in sorted(counts):
        passed += counts[value]
        if 2 * passed >= items:
            return value
    raise AssertionError("no items")


def _within(counts: Mapping[int, int], low: int, high: int | None) -> int:
    return sum(n for value, n in counts.items() if low <= value and (high is None or value <= high))


def _name(low: int, high: int | None) -> str:
    if high is None:
        return f"{low}+"
    return str(low) if low == high else f"{low}-{high}"


def one_line(name: str, figures: Mapping[str, Any]) -> str:
    """`name: mean 3.2, median 2, 1 to 40 (1: 12, 2: 30, ...)`."""
    if not figures["items"]:
        return f"{name}: none"
    bins = ", ".join(f"{bin}: {n}" for bin, n in figures["bins"].items())
    spread = f"{figures['min']} to {figures['max']}"
    return f"{name}: mean {figures['mean']}, median {figures['median']}, {spread} ({bins})"


def listing(title: str, counts: Counter[str]) -> list[str]:
    """A title line with the total and a line for each reason; nothing when there is none."""
    if not counts:
        return []
    return [
        f"{title}: {counts.total()}",
        *(f"  {n} x {reason}" for reason, n in counts.most_common()),
    ]
