"""A made-up run folder with the keys that a real one has."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

from spader_slime.local.run_dir import RunDir
from support.dumps import write_dump

ITERATIONS = 60


def write_run(root: Path, finished: bool = True) -> Path:
    """Write metrics, a dump, and the result where the run is `finished`."""
    noise = random.Random(0)
    with RunDir(root) as run:
        for step in range(0, 2000, 50):
            run.metrics.log("cold_start", step, {"train/loss": 3 * math.exp(-step / 400) + 0.2})
        for iteration in range(ITERATIONS):
            run.metrics.log("train", iteration, _iteration(iteration, noise))
        for done in range(0, ITERATIONS + 1, 20):
            values = {f"eval/dev/{key}": value for key, value in _scores(done, noise).items()}
            run.metrics.log("eval", done, values | {"time/evaluation": 3.0})
        run.write_text(run.config, "spader: {estimator: spa, gamma: 1.0}\nrun: {iterations: 60}\n")
        if finished:
            run.write_json(run.result, _result())
    write_dump(root / "dumps" / "9.pt")
    write_dump(root / "dumps" / "59.pt")
    return root


def _scores(iteration: int, noise: random.Random) -> dict[str, float]:
    level = 0.3 + 0.25 * (1 - math.exp(-iteration / 25)) + noise.gauss(0, 0.015)
    return {
        "spader/f1": level,
        "spader/recall": level - 0.1,
        "spader/recall_head": level + 0.2,
        "spader/recall_tail": level - 0.25,
        "spader/precision": 0.8,
        "spader/answer_reward": level - 0.05,
        "spader/seen_share": level - 0.05,
        "spader/union_share": level + 0.1,
        "spader/queries": 2 + 4 * level,
        "spader/turns": 3 + 4 * level,
        "spader/malformed_calls": 0.02,
        "spader/end/answered": 0.97,
        "spader/end/invalid": 0.03,
    }


def _iteration(iteration: int, noise: random.Random) -> dict[str, float]:
    steps: dict[str, float] = {}
    for step in range(1, 9):
        steps[f"spader/advantage_mean/step_{step}"] = noise.gauss(0, 0.05)
        steps[f"spader/advantage_std/step_{step}"] = 1.0 - 0.04 * step
        steps[f"spader/live_peers/step_{step}"] = 12 * math.exp(-step / (4 + iteration / 15))
    return {
        **_scores(iteration, noise),
        **steps,
        "spader/response_tokens": 210 + iteration,
        "spader/observation_tokens": 150 + iteration / 2,
        "spader/entities_seen": 5 + iteration / 20,
        "spader/union_entities": 7 + iteration / 20,
        "spader/new_entities_per_step": 1.4,
        "spader/peer_overlap": 0.7,
        "spader/novelty_share": 0.4,
        "spader/distill/reverse_kl": 0.3 * math.exp(-iteration / 10),
        "spader/distill/teacher_entropy": 0.13,
        "spader/distill/student_entropy": 0.17,
        "train/gated_forward_kl": 0.3 * math.exp(-iteration / 12),
        "train/gated_entropy": 0.7,
        "train/entropy": 0.5 * math.exp(-iteration / 30),
        "train/grad_norm": abs(noise.gauss(0.6, 0.1)),
        "train/logprob_gap": abs(noise.gauss(2e-6, 5e-7)) + 1e-8,
        "time/rollout": 1.3,
        "time/train": 0.6,
        "time/publish": 0.05,
    }


def _result() -> dict[str, Any]:
    before = {"f1": 0.28, "recall": 0.19, "precision": 0.7, "recall_head": 0.4, "recall_tail": 0.03}
    after = {"f1": 0.5, "recall": 0.36, "precision": 0.85, "recall_head": 0.6, "recall_tail": 0.2}
    plain = {"f1": 0.32, "recall": 0.2, "precision": 0.99}
    both = {"queries": 3.0, "seen_share": 0.4, "union_share": 0.5, "invalid_format": 0.02}
    return {
        "before": {"dev": before | both, "test": before | both},
        "after": {"dev": after | both, "test": after | both},
        "baselines": {"plain_query": {"dev": plain, "test": plain}},
        "seconds": {"cold_start": 190.0, "rollout": 78.0, "train": 36.0, "evaluation": 12.0},
        "gap_max": 3.1e-6,
        "peak_memory_mb": 2300.0,
    }
