from __future__ import annotations

from pathlib import Path

import pytest
from support.policies import write_policy


@pytest.fixture(scope="session")
def hf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen3 with tied embeddings."""
    return write_policy(tmp_path_factory.mktemp("policy") / "hf")
