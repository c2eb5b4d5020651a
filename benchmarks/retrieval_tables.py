"""Markdown tables of what `retrieval.py` measured."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Iterable
from typing import Any

SERVICE = "tantivy, HTTP"
FAR = 25_000_000  # passages of QAMPARI's Wikipedia

Results = dict[str, Any]


def markdown(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def report(results: Results) -> str:
    """All tables; `results` by corpus size."""
    sizes = list(results)
    parts = [f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"]
    for size in sizes:
        found = results[size]
        parts += [f"## {int(size):,} passages", builds(found), speeds(found)]
    parts += [f"## Rankings, {int(sizes[-1]):,} passages", rankings(results[sizes[-1]])]
    if len(sizes) > 1:
        parts += ["## Growth", growth(results)]
    return "\n\n".join(parts)


def builds(found: Results) -> str:
    header = [
        "",
        "build",
        "its CPU",
        "others",
        "on disk",
        "memory, build",
        "memory, search",
        "its own",
    ]
    rows = []
    for engine, one in found["search"].items():
        built = found["build"].get(engine)
        rows.append(
            [
                engine,
                f"{built['seconds']:.0f} s" if built else "",
                f"{built['cpu']:.0f} s" if built else "",
                f"{built['others']:.1f}" if built else "",
                f"{built['disk_mb']:,.0f} MB" if built else "",
                f"{built['peak_mb']:,.0f} MB" if built else "",
                f"{one['resident']:,.0f} MB",
                f"{one['own']:,.0f} MB",
            ]
        )
    return markdown(header, rows)


def speeds(found: Results) -> str:
    """Queries (of the service: calls of three queries) a second, and their milliseconds.

    CPU is what the process that searches spends; others: cores that other processes kept busy.
    """
    header = [
        "",
        "k",
        "threads or clients",
        "queries/s",
        "calls/s",
        "p50 ms",
        "p99 ms",
        "CPU ms",
        "others",
    ]
    rows = []
    for engine, one in found["search"].items():
        for key, load in one["loads"].items():
            k, threads = key.split()
            service = engine == SERVICE
            rate = load["rate"] * (3 if service else 1)
            calls = f"{load['rate']:,.0f}" if service else ""
            times = [f"{load[name]:.2f}" for name in ("p50_ms", "p99_ms", "cpu_ms")]
            rows.append([engine, k, threads, f"{rate:,.0f}", calls, *times, f"{one['others']:.1f}"])
    return markdown(header, rows)


def rankings(found: Results) -> str:
    header = ["", "of tantivy's 5", "of tantivy's 50", "own passage first"]
    names = ("overlap 5", "overlap 50", "own first")
    rows = ([e, *(f"{row[name]:.3f}" for name in names)] for e, row in found["rank"].items())
    return markdown(header, rows)


def growth(results: Results) -> str:
    """What grows with the corpus: the power of its size that it follows, and where that leads.

    The power is the slope of the least squares line through the logarithms of all sizes.
    """
    measures: dict[str, Callable[[Results], float]] = {
        "build, CPU s": lambda r: r["build"]["tantivy"]["cpu"],
        "on disk, MB": lambda r: r["build"]["tantivy"]["disk_mb"],
        "memory of the build, MB": lambda r: r["build"]["tantivy"]["peak_mb"],
        "memory of the service, MB": lambda r: r["search"][SERVICE]["resident"],
        "of that its own, MB": lambda r: r["search"][SERVICE]["own"],
        "k=5, CPU ms of a query": lambda r: _cpu(r, "tantivy", "5 1"),
        "k=50, CPU ms of a query": lambda r: _cpu(r, "tantivy", "50 1"),
        "k=5, CPU ms of a call, HTTP": lambda r: _cpu(r, SERVICE, "5 8"),
    }
    sizes = [int(size) for size in results]
    rows = []
    for name, get in measures.items():
        values = [get(results[str(size)]) for size in sizes]
        power, far = _fit(sizes, values)
        shown = [_short(value) for value in (*values, far)]
        rows.append([name, *shown[:-1], f"{power:.2f}", shown[-1]])
    return markdown(["", *(f"{s:,}" for s in sizes), "power", f"{FAR:,} (extrapolated)"], rows)


def _cpu(found: Results, engine: str, load: str) -> float:
    return found["search"][engine]["loads"][load]["cpu_ms"]


def _fit(sizes: list[int], values: list[float]) -> tuple[float, float]:
    xs, ys = [math.log(size) for size in sizes], [math.log(value) for value in values]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((a - x) ** 2 for a in xs)
    power = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / spread
    return power, math.exp(ys[-1] + power * (math.log(FAR) - xs[-1]))


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
