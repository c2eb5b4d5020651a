"""The documentation: pages made from the code are current; the site builds without a warning."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["configuration.md", "commands.md"])
def test_pages_made_from_the_code_are_current(reference: ModuleType, page: str) -> None:
    written = (DOCS / page).read_text(encoding="utf-8")
    assert written == reference.PAGES[page](), "run `python docs/reference.py`"


def test_the_site_builds_and_all_links_within_it_lead_somewhere(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="the extra [docs] is not installed")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(DOCS), str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert "spader.reward" in (tmp_path / "configuration.html").read_text(encoding="utf-8")
