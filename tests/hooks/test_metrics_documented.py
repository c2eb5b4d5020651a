"""Every metric has its line in docs/metrics.md."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import torch
from support.episodes import episode, graded

from spader_slime.algorithms.teacher_scores import Lesson, no_scores
from spader_slime.metrics import Graded, rollout_metrics

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


def documented() -> list[re.Pattern[str]]:
    """The names in the first cells of the tables; `<n>` stands for any word."""
    cells = re.findall(r"^\| (`.+?) \|", DOCUMENT.read_text("utf-8"), flags=re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    return [re.compile(re.sub(r"<\w+>", r"\\w+", name)) for name in names]


def _lesson(one: Graded) -> Lesson:
    """A teacher's judgement of it, whatever it says."""
    episode = one.episode
    scores = no_scores(len(episode.log_probs), 2)
    weights = torch.tensor(episode.loss_mask, dtype=torch.float32)
    return Lesson(replace(scores, weight_T=weights), None, 0.1)


def test_every_metric_is_documented_and_the_other_way_round() -> None:
    peers = graded(episode(["Oslo"], answer=["Oslo"]), episode(["Bergen"], answer=["Oslo"]))
    tiers = {"head": 1.0, "tail": 0.0}
    tiered = [Graded(one.episode, one.credit, tiers, _lesson(one)) for one in peers]
    found = {name.removeprefix("spader/") for name in rollout_metrics([tiered])}
    patterns = documented()
    assert {name for name in found if not any(p.fullmatch(name) for p in patterns)} == set()
    assert [p.pattern for p in patterns if not any(p.fullmatch(name) for name in found)] == []
