from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support.engines import Client, plain_model, serving
from support.tokenizers import byte_tokenizer

from spader_slime.local.engine.launch import EngineProcess
from spader_slime.local.initial import write_initial
from spader_slime.local.settings import PolicySettings

torch.set_num_threads(1)
SHAPE = PolicySettings(layers=2, hidden=32, ffn=64, heads=4, kv_heads=2, head_dim=8)
ROWS, CONTEXT = 16, 256


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two models of the same shape with different weights."""
    home = tmp_path_factory.mktemp("models")
    byte_tokenizer(home / "tokenizer")
    return [write_initial(home / f"model{s}", SHAPE, home / "tokenizer", 512, s) for s in (0, 1)]


@pytest.fixture(scope="session")
def model(folders: list[Path]) -> Any:
    return plain_model(folders[0])


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return byte_tokenizer()


@pytest.fixture(scope="session")
def client(folders: list[Path]) -> Iterator[Client]:
    """An engine that keeps its first weights."""
    with EngineProcess(folders[0], max_running=ROWS, context_length=CONTEXT) as engine:
        yield Client(engine.url)


@pytest.fixture
def changing(folders: list[Path]) -> Iterator[Client]:
    """An engine of one's own in this process, to change its weights or to abort everything."""
    with serving(folders[0], ROWS, CONTEXT) as client:
        yield client
