from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from doctor.setups import SHAPE, Setup, common_flags, model_flags
from support.search import ScriptedSearch

TEXT = "A city in Vestland, Norway, on the west coast; it has a harbour and seven hills. " * 2


@pytest.fixture(scope="session")
def search() -> Iterator[ScriptedSearch]:
    """A service that finds five documents for every query."""
    with ScriptedSearch(lambda query: [(f"Bergen {n}", TEXT) for n in range(5)]) as service:
        yield service


@pytest.fixture
def qwen(tmp_path: Path, search: ScriptedSearch, monkeypatch: pytest.MonkeyPatch) -> Setup:
    """One node, engines and trainer on the same GPUs; nothing is wrong with it."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    flags = {
        "actor-num-nodes": ["1"],
        "actor-num-gpus-per-node": ["8"],
        "colocate": [],
        **model_flags(SHAPE),
        **common_flags("jsonl"),
        "tensor-model-parallel-size": ["2"],
        "pipeline-model-parallel-size": ["2"],
        "sequence-parallel": [],
        "eval-interval": ["20"],
        "eval-prompt-data": ["cities", "{folder}/test.jsonl"],
    }
    agent = {"max_turns": 8, "max_turn_tokens": 512, "answer_reserve": 512}
    search_keys = {"max_chars": 2000, "timeout_s": 20.0}
    return Setup(tmp_path, [search.endpoint], flags, {"agent": agent, "search": search_keys})
