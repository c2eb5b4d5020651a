"""Table and plots of a comparison."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spader_slime.local.comparison.plan import Plan, Setting, short
from spader_slime.local.comparison.plots import plot_arms, plot_curves
from spader_slime.local.jobs import Job
from spader_slime.local.metrics_log import TRAIN, read_metrics
from spader_slime.local.statistics import Interval, mean_interval, paired_difference

# metric of an evaluation -> (name in the table, factor)
METRICS = {
    "recall": ("recall", 100.0),
    "f1": ("F1", 100.0),
    "precision": ("precision", 100.0),
    "recall_tail": ("tail recall", 100.0),
    "seen_share": ("seen", 100.0),
    "union_share": ("union seen", 100.0),
    "searches": ("searches", 1.0),
}
PAIRED = ("recall", "f1")
Cells = dict[tuple[str, str], list[dict[str, float]]]  # (regime, arm) -> metrics per seed
Curves = dict[tuple[str, str], list[list[tuple[int, float]]]]  # ... -> (iteration, recall) per seed


def write_results(plan: Plan, chosen: dict[tuple[str, str], Setting]) -> Path:
    """Write `results/` with compare.md, compare.json and plots; returns that folder."""
    folder = plan.out / "results"
    folder.mkdir(parents=True, exist_ok=True)
    jobs = {pair: plan.final_jobs(*pair, chosen[pair]) for pair in plan.pairs()}
    cells = {pair: [_after(job) for job in found] for pair, found in jobs.items()}
    curves = {pair: [recall_curve(job) for job in found] for pair, found in jobs.items()}
    (folder / "compare.md").write_text(table(plan, chosen, cells), encoding="utf-8")
    (folder / "compare.json").write_text(json.dumps(_numbers(plan, chosen, cells), indent=1))
    plot_arms(folder / "compare.png", plan, cells)
    plot_curves(folder / "curves.png", plan, curves)
    return folder


def _after(job: Job) -> dict[str, float]:
    found: dict[str, float] = json.loads(job.result.read_text())["after"]["test"]
    return found


def recall_curve(job: Job) -> list[tuple[int, float]]:
    """(iteration, recall of the training rollout) of every iteration."""
    lines = read_metrics(job.out / "metrics.jsonl")
    return [(r["iteration"], r["spader/recall"]) for r in lines if r["phase"] == TRAIN]


def table(plan: Plan, chosen: dict[tuple[str, str], Setting], cells: Cells) -> str:
    """Markdown: for each regime the means with 95 % intervals, then paired differences."""
    return "\n\n".join(_regime(plan, regime, chosen, cells) for regime in plan.asked.regimes) + "\n"


def _regime(plan: Plan, regime: str, chosen: dict[tuple[str, str], Setting], cells: Cells) -> str:
    names = [name for name, _ in METRICS.values()]
    rows = [
        [arm, *(_cell(cells[regime, arm], key) for key in METRICS), _said(chosen[regime, arm])]
        for arm in plan.asked.arms
    ]
    parts = [f"## {regime} cold start", _markdown(["arm", *names, "setting"], rows)]
    return "\n\n".join([*parts, _differences(plan, regime, cells)])


def _cell(seeds: Sequence[dict[str, float]], key: str) -> str:
    scaled = [seed[key] * METRICS[key][1] for seed in seeds if key in seed]
    return _plus_minus(mean_interval(scaled)) if scaled else "-"


def _said(setting: Setting) -> str:
    return ", ".join(map(short, setting)) or "as is"


def _differences(plan: Plan, regime: str, cells: Cells) -> str:
    ours, *others = plan.asked.arms
    rows = []
    for other in others:
        pairs = [(key, _paired(cells, regime, (ours, other), key)) for key in PAIRED]
        rows.append([f"{ours} - {other}", *(_plus_minus(found) for _, found in pairs)])
    return _markdown(["paired by seed", *(METRICS[key][0] for key in PAIRED)], rows)


def _paired(cells: Cells, regime: str, arms: tuple[str, str], key: str) -> Interval:
    ours, theirs = ([seed[key] * METRICS[key][1] for seed in cells[regime, arm]] for arm in arms)
    return paired_difference(ours, theirs)


def _plus_minus(found: Interval) -> str:
    return f"{found.mean:.1f} ± {found.half_width:.1f}"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _numbers(plan: Plan, chosen: dict[tuple[str, str], Setting], cells: Cells) -> dict[str, Any]:
    return {
        "seeds": plan.asked.seeds,
        "iterations": plan.asked.iterations,
        "cells": [
            {
                "regime": regime,
                "arm": arm,
                "setting": list(chosen[regime, arm]),
                "test": cells[regime, arm],
            }
            for regime, arm in plan.pairs()
        ],
    }
