"""Every metric has its line in docs/metrics.md."""

from __future__ import annotations

import re
from pathlib import Path

from support.episodes import episode, graded

from spader_slime.metrics import Graded, rollout_metrics

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


def documented() -> list[re.Pattern[str]]:
    """The names in the first cells of the tables; `<n>` stands for any word."""
    cells = re.findall(r"^\| (`.+?) \|", DOCUMENT.read_text("utf-8"), flags=re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    return [re.compile(re.sub(r"<\w+>", r"\\w+", name)) for name in names]


def test_every_metric_is_documented_and_the_other_way_round() -> None:
    peers = graded(episode(["Oslo"], answer=["Oslo"]), episode(["Bergen"], answer=["Oslo"]))
    tiered = [Graded(one.episode, one.credit, {"head": 1.0, "tail": 0.0}) for one in peers]
    found = {name.removeprefix("spader/") for name in rollout_metrics([tiered])}
    patterns = documented()
    assert {name for name in found if not any(p.fullmatch(name) for p in patterns)} == set()
    assert [p.pattern for p in patterns if not any(p.fullmatch(name) for name in found)] == []
