from __future__ import annotations

import pytest

from spader_slime.local.world.build import WorldFiles, build_world


@pytest.fixture(scope="session")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    return build_world("small", tmp_path_factory.mktemp("world") / "small", seed=0)


@pytest.fixture(scope="session")
def full_files(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    return build_world("full", tmp_path_factory.mktemp("world") / "full", seed=0)
