"""Distillation on the embedded world: EOPD, reverse KL alone, SPADER + EOPD, over seeds.

    python benchmarks/distillation.py --out runs/distillation [--seeds 0 1 2] [--parallel 2]

For each seed the quickstart trains a teacher; the student is the quickstart's cold start. Finished
runs are not done again. Writes distillation.json, .md and .png beside the runs; those of
docs/results come from here. About ten minutes a seed on two idle cores.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context

from spader_slime.local.jobs import Job, run_jobs
from spader_slime.local.metrics_log import TRAIN, read_metrics
from spader_slime.local.statistics import mean_interval, paired_difference
from spader_slime.report import style

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "examples" / "eopd" / "quickstart.yaml"
TEACHER = ROOT / "examples" / "quickstart" / "config.yaml"
ARMS = {
    "EOPD": (),
    "reverse KL only": ("spader.distillation.forward_kl_coef=0",),
    "SPADER + EOPD": ("spader.distillation.task_reward=true",),
}
COLORS = dict(zip(ARMS, (style.BLUE, style.GREY, style.ORANGE), strict=True))
CURVES = {
    "spader/distill/reverse_kl": "Reverse KL to the teacher, nats",
    "train/gated_entropy": "Student's entropy on gated tokens",
    "spader/f1": "F1 of the training rollouts",
}
LAST = 5  # iterations that a figure "at the end" averages


def jobs(out: Path, seeds: list[int]) -> tuple[list[Job], list[Job]]:
    """The teachers, and the students of all arms."""
    teachers = [
        Job(f"teacher {seed}", TEACHER, (f"run.seed={seed}",), teacher(out, seed)) for seed in seeds
    ]
    students = [
        Job(f"{arm} {seed}", CONFIG, (*more, *student(out, seed)), folder(out, arm, seed))
        for seed in seeds
        for arm, more in ARMS.items()
    ]
    return teachers, students


def teacher(out: Path, seed: int) -> Path:
    """Folder of a seed's teacher."""
    return out / "teacher" / f"seed_{seed}"


def student(out: Path, seed: int) -> tuple[str, ...]:
    """Overrides of a seed's students."""
    return (f"run.seed={seed}", f"teacher.dir={teacher(out, seed)}")


def folder(out: Path, arm: str, seed: int) -> Path:
    """Folder of one student."""
    return out / arm.replace(" ", "_") / f"seed_{seed}"


def measured(out: Path, arm: str, seed: int) -> dict[str, float]:
    """What one run says about the acceptance of the method."""
    run = folder(out, arm, seed)
    result = json.loads((run / "result.json").read_text())
    taught = json.loads((teacher(out, seed) / "result.json").read_text())["after"]["test"]
    before, after = (result[name]["test"] for name in ("before", "after"))
    kl, entropy = (curve(run, key)[1] for key in list(CURVES)[:2])
    return {
        "teacher_f1": taught["f1"],
        "f1_before": before["f1"],
        "f1_after": after["f1"],
        "recall_after": after["recall"],
        "lead_gained": (after["f1"] - before["f1"]) / (taught["f1"] - before["f1"]),
        "reverse_kl_first": float(kl[0]),
        "reverse_kl_last": float(kl[-LAST:].mean()),
        "gated_entropy_last": float(entropy[-LAST:].mean()),
    }


def curve(run: Path, key: str) -> tuple[Any, Any]:
    """Iterations and values of a training metric."""
    rows = [row for row in read_metrics(run / "metrics.jsonl") if row["phase"] == TRAIN]
    return np.array([r["iteration"] for r in rows]), np.array([r[key] for r in rows])


def tables(found: dict[str, list[dict[str, float]]], seeds: list[int]) -> str:
    """Markdown: every run, and differences between arms paired by seed."""
    names = list(next(iter(found.values()))[0])
    head = ["arm", "seed", *(name.replace("_", " ") for name in names)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for arm, runs in found.items():
        for seed, run in zip(seeds, runs, strict=True):
            lines.append(f"| {arm} | {seed} | " + " | ".join(f"{run[n]:.3f}" for n in names) + " |")
    lines += ["", "| EOPD minus | F1 on test | entropy on gated tokens, nats |", "|---|---|---|"]
    for arm in list(found)[1:]:
        cells = [difference(found, arm, key) for key in ("f1_after", "gated_entropy_last")]
        lines.append(f"| {arm} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines) + "\n"


def difference(found: dict[str, list[dict[str, float]]], arm: str, key: str) -> str:
    """EOPD minus `arm`, mean and 95 % interval over seeds."""
    ours, theirs = ([run[key] for run in found[name]] for name in ("EOPD", arm))
    interval = paired_difference(ours, theirs)
    return f"{interval.mean:+.3f} +- {interval.half_width:.3f}"


def plot(path: Path, out: Path, seeds: list[int]) -> None:
    """Means over seeds; the band spans them."""
    with rc_context(style.STYLE):
        figure, axes = style.panels(len(CURVES))
        for axis, (key, title) in zip(axes, CURVES.items(), strict=True):
            for arm in ARMS:
                runs = [curve(folder(out, arm, seed), key) for seed in seeds]
                rows = [style.smooth(values, 1) for _, values in runs]
                axis.plot(runs[0][0], np.mean(rows, 0), color=COLORS[arm], label=arm)
                band = {"color": COLORS[arm], "alpha": 0.15, "linewidth": 0}
                axis.fill_between(runs[0][0], np.min(rows, 0), np.max(rows, 0), **band)
            style.iterations(axis, title)
            style.legend(axis)
        axes[0].set_yscale("log")
        axes[2].axhline(mean_teacher(out, seeds), color=style.INK, linewidth=1, linestyle=":")
        figure.savefig(path, dpi=style.DPI, bbox_inches="tight")


def mean_teacher(out: Path, seeds: list[int]) -> float:
    """The teachers' F1 in the last rollouts of their training."""
    ends = [curve(teacher(out, seed), "spader/f1")[1][-LAST:].mean() for seed in seeds]
    return mean_interval(ends).mean


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/distillation"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--parallel", type=int, default=2)
    options = parser.parse_args()
    out, seeds = options.out.resolve(), options.seeds
    for part in jobs(out, seeds):
        run_jobs(part, options.parallel)
    found = {arm: [measured(out, arm, seed) for seed in seeds] for arm in ARMS}
    (out / "distillation.json").write_text(json.dumps(found, indent=2) + "\n")
    (out / "distillation.md").write_text(tables(found, seeds))
    plot(out / "distillation.png", out, seeds)
    print(tables(found, seeds))


if __name__ == "__main__":
    main()
