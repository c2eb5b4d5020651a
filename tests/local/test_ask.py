"""`spader-slime ask` on an untrained policy: real search service, real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from spader_slime import cli
from spader_slime.local.initial import write_initial
from spader_slime.local.run_dir import RunDir
from spader_slime.local.settings import PolicySettings, load_config
from spader_slime.local.world.build import build_world

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/quickstart/config.yaml"
TINY = PolicySettings(layers=1, hidden=32, ffn=32, heads=2, kv_heads=1, head_dim=16)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A run whose policy has learned nothing yet."""
    made = RunDir(tmp_path_factory.mktemp("runs") / "untrained")
    config = load_config(EXAMPLE, [f"run.dir={made.root}", "spader.agent.max_turn_tokens=16"])
    made.write_config(config)
    files = build_world("small", made.world, seed=0)
    write_initial(made.hf, TINY, files.tokenizer, config.rollout.max_context, seed=0)
    return made


def test_the_policy_is_asked_and_its_end_is_told(
    run: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["ask", "Which cities are in Portugal?", "--run", str(run.root)]) == 0
    text = capsys.readouterr().out
    assert "Which cities are in Portugal?" in text
    assert "no answer (" in text  # noise does not write valid answers
    assert "infrastructure" not in text


def test_the_newest_run_is_asked_by_default(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(run.root.parent)
    assert cli.main(["ask", "Who?"]) == cli.USER_FAULT
    assert "there is none in runs/" in capsys.readouterr().err
