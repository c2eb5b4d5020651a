"""Figures of examples/qampari/README.md: YAML files, dry runs and the loop's own budget."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docs.pages import ROOT, rows
from launch.machine import Machine, flag

from spader_slime.agent.budget import make_budget
from spader_slime.config import SpaderConfig, load_spader

EXAMPLE = ROOT / "examples" / "qampari"
README = EXAMPLE / "README.md"
TOKENS_PER_CHARACTER, TURN, PROMPT, PASSAGE = 2300 / 10_000, 200, 512, 600  # as the page says


def searches(config: SpaderConfig, job: list[str], shown: int, turn: int = TURN) -> int:
    """Searches whose results of `shown` tokens fit whole, asking the loop's budget every time."""
    response = int(flag(job, "--rollout-max-response-len") or 0)
    context = int(flag(job, "--rollout-max-context-len") or 0)
    budget = make_budget(config.agent, response, context)
    episode: Any = SimpleNamespace(prompt_ids=[0] * PROMPT, response_ids=[0] * turn)
    for made in range(config.agent.max_turns):
        if made + 1 == config.agent.max_turns or budget.observation(episode) < shown:
            return made
        episode.response_ids += [0] * (shown + turn)
    raise AssertionError


def figures(config: SpaderConfig, job: list[str], settings: str) -> list[str]:
    """The other cells of a row."""
    if given := re.search(r"max_chars: (\d+)", settings):
        config.search.max_chars = int(given[1])
    characters = config.search.max_chars
    if "one query" in settings:
        characters = min(characters, config.search.top_k * PASSAGE)
    shown = round(characters * TOKENS_PER_CHARACTER)
    assert shown <= config.agent.max_observation_tokens
    return [f"{characters:,}", f"{TURN + shown:,}", str(searches(config, job, shown))]


@pytest.mark.parametrize("name", ["qwen3", "llama3.1", "qwen3-grpo"])
def test_the_figures_of_the_table(tmp_path: Path, name: str) -> None:
    machine = Machine(tmp_path)
    table = rows(README.read_text(encoding="utf-8"), "## Token budget")
    for settings, *cells in table:
        job = machine.job(**dict(re.findall(r"`(\w+)=(\d+)`", settings)))
        assert cells == figures(load_spader(EXAMPLE / f"{name}.yaml"), job, settings), settings


def test_long_thinking(tmp_path: Path) -> None:
    job, config = Machine(tmp_path).job(), load_spader(EXAMPLE / "qwen3.yaml")
    assert "thinks for 600 tokens a turn gets two searches from the first row and five" in (
        README.read_text(encoding="utf-8")
    )
    assert [searches(config, job, shown, turn=600) for shown in (2300, 690)] == [2, 5]
