"""slime's own plugin contracts with our hooks (`checks_plugin_contracts.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from contracts.driving import drive, slime_or_skip

HERE = Path(__file__).resolve().parent
CHECKS = (
    "rollout function",
    "evaluation function",
    "generate function",
    "dynamic sampling filter",
    "group reward",
    "reward of one sample",
    "reward post-process",
    "call sites",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    if not (Path(slime_or_skip()) / "tests/plugin_contracts").is_dir():
        pytest.skip("this slime comes without tests/plugin_contracts")
    out = tmp_path_factory.mktemp("slime") / "results.json"
    found: dict[str, str] = drive(HERE / "on_slime_contracts.py", out)
    assert tuple(found) == CHECKS
    return found


@pytest.mark.parametrize("check", CHECKS)
def test_contract(results: dict[str, str], check: str) -> None:
    assert results[check] == ""
