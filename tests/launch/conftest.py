from __future__ import annotations

from pathlib import Path

import pytest
from launch.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """In a folder whose name needs quoting."""
    return Machine(tmp_path / "it's a $node")
