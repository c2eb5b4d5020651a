from __future__ import annotations

import pytest

from spader_slime.local.world.build import WorldFiles, build_world


@pytest.fixture(scope="session")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    return build_world("small", tmp_path_factory.mktemp("world") / "small", seed=0)
