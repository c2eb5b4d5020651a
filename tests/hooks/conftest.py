from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `support`

from support.engine import ScriptedEngine
from support.hosts import TownScript, write_prompts
from support.tokenizers import byte_tokenizer


@pytest.fixture(scope="module")
def engine() -> Iterator[ScriptedEngine]:
    """Answers with the towns' script."""
    with ScriptedEngine(byte_tokenizer(), TownScript()) as running:
        yield running


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    """The file of the towns' questions."""
    return write_prompts(tmp_path / "prompts.jsonl")
