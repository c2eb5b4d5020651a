"""Metrics and keys that the pages advise on are those of the pages that list them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.pages import ROOT

DOCS = ROOT / "docs"
ADVICE = (
    DOCS / "tuning.md", DOCS / "troubleshooting.md", DOCS / "cluster.md",
    ROOT / "examples" / "qampari" / "README.md",
)  # fmt: skip
SECTIONS = "reward|agent|search|loss|failures"


def metrics() -> set[str]:
    """First part of every name in metrics.md: `end/<state>` is `end`."""
    cells = re.findall(r"^\| (`.*?) \|", (DOCS / "metrics.md").read_text("utf-8"), re.MULTILINE)
    return {name.split("/")[0] for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def keys() -> set[str]:
    """`reward.alpha` and so on, from configuration.md."""
    text = (DOCS / "configuration.md").read_text("utf-8")
    found = set()
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        name = section.split("\n", 1)[0].removeprefix("spader.")
        found |= {f"{name}.{key}" for key in re.findall(r"^\| `(\w+)` ", section, re.MULTILINE)}
    return found


@pytest.mark.parametrize("page", ADVICE, ids=lambda page: page.name)
def test_names_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    tiers = {"recall_head", "recall_tail"}  # recall_<tier>
    said = set(re.findall(r"`spader/(\w+)", text))
    assert said - metrics() - tiers == set()
    assert set(re.findall(rf"`((?:{SECTIONS})\.\w+)", text)) - keys() == set()
