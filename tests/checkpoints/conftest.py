from __future__ import annotations

from collections.abc import Iterator

import pytest

from spader_slime.megatron import grid
from spader_slime.megatron.settings import LearnerSettings


@pytest.fixture(scope="module")
def alone() -> Iterator[None]:
    """This process is a grid of one."""
    grid.start_grid(LearnerSettings(), grid.Place())
    yield
    grid.stop_grid()
