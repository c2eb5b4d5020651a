"""Every test that docs/slime-compatibility.md names is there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "slime-compatibility.md").read_text("utf-8")
CHECKS = {
    "on_slime": "contracts.test_on_slime",
    "on_slime_loss": "contracts.test_loss_on_slime",
    "on_slime_distillation": "contracts.test_distillation_on_slime",
    "on_slime_contracts": "contracts.test_plugin_contracts",
}


def test_named_tests_exist() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 40
    for file, test in named:
        assert f"def {test}(" in (TESTS / file).read_text("utf-8"), (file, test)


def test_named_checks_exist_and_all_are_named() -> None:
    for script, module in CHECKS.items():
        named = set(re.findall(rf"`{script}: ([^`]+)`", PAGE))
        assert named <= set(import_module(module).CHECKS), script
    assert set(re.findall(r"`on_slime: ([^`]+)`", PAGE)) == set(
        import_module("contracts.test_on_slime").CHECKS
    )


def test_every_trap_has_its_line() -> None:
    assert re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE) == [str(n) for n in range(1, 29)]
