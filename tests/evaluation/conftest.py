from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.engine import ScriptedEngine
from support.hosts import AGENT, ANSWERS, CAPITAL, TOWNS, VESTLAND, write_prompts
from support.search import ScriptedSearch
from support.tokenizers import byte_tokenizer

from spader_slime.evaluation.sources import Sources


def script(text: str) -> str:
    """Searches for the capital, and for odd questions in Vestland too, then answers."""
    number = int(re.findall(r"Which towns\? (\d+)", text)[-1])
    turns = text.count("<|im_start|>assistant")
    if turns == 1:
        return CAPITAL
    if turns == 2:
        return VESTLAND if number % 2 else ANSWERS[0]
    return ANSWERS[1]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ScriptedEngine]:
    folder = tmp_path / "model"
    with ScriptedEngine(byte_tokenizer(folder), script) as engine:
        engine.served = {"model_path": str(folder), "weight_version": "0"}
        yield engine


@pytest.fixture
def search() -> Iterator[ScriptedSearch]:
    with ScriptedSearch(lambda query: TOWNS.get(query, [])) as search:
        yield search


@pytest.fixture
def sources(engine: ScriptedEngine, search: ScriptedSearch, tmp_path: Path) -> Sources:
    """Three questions, two samples each; nothing is tried twice."""
    config = tmp_path / "config.yaml"
    spader = {"agent": AGENT, "search": {"retries": 0, "top_k": 2}}
    config.write_text(json.dumps({"spader": spader}))
    return Sources(
        data={"towns": Path(write_prompts(tmp_path / "towns.jsonl"))},
        endpoint=engine.url,
        search_urls=[search.endpoint],
        config=config,
        ask={"samples": 2, "max_tokens": 2000},
    )
