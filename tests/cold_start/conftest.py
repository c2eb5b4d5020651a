from __future__ import annotations

import pytest
from support.scripts import Parts, configured, make_parts

from spader_slime.local.world.build import WorldFiles, build_world


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    return build_world("small", tmp_path_factory.mktemp("world") / "small", seed=0)


@pytest.fixture(scope="session")
def parts(files: WorldFiles) -> Parts:
    return make_parts(files, configured())
