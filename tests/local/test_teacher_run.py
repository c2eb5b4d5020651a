"""`spader-slime train` with a teacher: the same command, on a small teacher and few iterations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spader_slime.config import read_yaml
from spader_slime.errors import ConfigError
from spader_slime.local.settings import load_config, loss_settings
from spader_slime.local.teacher import ensure_teacher, teacher_policy
from spader_slime.report.data import load_run
from spader_slime.report.distilling import distillation

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIG = EXAMPLES / "eopd" / "quickstart.yaml"
SMALL = (
    "rollout.prompts=2",
    "rollout.samples=4",
    "train.minibatches=2",
    "evaluation.samples=1",
    "evaluation.test=false",
    "run.report=false",
)
ITERATIONS = 2


def train(config: Path, *overrides: str) -> str:
    command = [sys.executable, "-m", "spader_slime.cli", "train", "--config", str(config)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *SMALL, *overrides], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose teacher, told by its own file, is trained first."""
    folder = tmp_path_factory.mktemp("taught")
    asked = read_yaml(EXAMPLES / "quickstart" / "config.yaml", resolve=False)
    asked["spader"]["agent"]["prompt_file"] = str(EXAMPLES / "quickstart" / "prompt.txt")
    asked |= {"run": {"iterations": 1, "report": False}, "cold_start": {"steps": 30}}
    asked |= {"evaluation": {"samples": 1, "test": False}}
    asked["rollout"] |= {"prompts": 2, "samples": 4}
    teacher = folder / "teacher.yaml"
    teacher.write_text(json.dumps(asked))
    said = train(
        CONFIG,
        f"teacher.dir={folder / 'teacher'}",
        f"teacher.config={teacher}",
        f"run.dir={folder / 'run'}",
        f"run.iterations={ITERATIONS}",
    )
    assert f"training the teacher in {folder / 'teacher'}" in said
    return folder / "run"


def lines(run: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in found if line["phase"] == "train"]


def test_every_trajectory_is_judged_and_the_loss_has_its_part(taught: Path) -> None:
    for line in lines(taught):
        assert line["spader/distill/scored"] == 8 and line["spader/distill/lost_share"] == 0
        assert 0 < line["train/gated_share"] < 0.35
        assert line["train/gated_forward_kl"] > 0 and line["train/gated_entropy"] > 0
        assert line["train/logprob_gap_max"] < 1e-4
    assert len(lines(taught)) == ITERATIONS


def test_the_report_shows_it(taught: Path) -> None:
    assert distillation(load_run(taught)) is not None
    assert distillation(load_run(taught.parent / "teacher")) is None


def test_with_the_same_policy_as_teacher_there_is_nothing_to_learn(taught: Path) -> None:
    """The teacher's own weights as the student: every KL is zero but for rounding."""
    root = taught.parent
    train(
        CONFIG,
        f"teacher.dir={root / 'teacher'}",
        f"cold_start.checkpoint={root / 'teacher' / 'hf'}",
        f"run.dir={root / 'same'}",
        "run.iterations=1",
        "train.lr=0",
        "spader.distillation.tail=keep",
    )
    (line,) = lines(root / "same")
    assert abs(line["spader/distill/reverse_kl"]) < 1e-5
    assert 0 <= line["train/gated_forward_kl"] < 1e-5
    assert abs(line["train/pg_loss"]) < 1e-5


def test_a_teacher_that_is_not_there(tmp_path: Path) -> None:
    where = f"teacher.dir={tmp_path / 'none'}"
    config = load_config(CONFIG, [where, "teacher.config=null"])
    assert teacher_policy(config) == tmp_path / "none" / "hf"
    with pytest.raises(ConfigError, match=r"teacher\.dir"):
        ensure_teacher(config, lambda _: None)


def test_addresses_come_from_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"teacher\.dir in its place"):
        load_config(CONFIG, ["spader.distillation.urls=['http://127.0.0.1:1']"])


def test_the_trainer_is_told_by_the_method_s_own_keys() -> None:
    config = load_config(CONFIG, ["spader.distillation.forward_kl_coef=0.5"])
    assert loss_settings(config)["forward_kl_coef"] == 0.5
    with pytest.raises(ConfigError, match=r"spader\.distillation\.forward_kl_coef"):
        load_config(CONFIG, ["train.forward_kl_coef=0.7"])
    quickstart = load_config(EXAMPLES / "quickstart" / "config.yaml")
    assert loss_settings(quickstart)["forward_kl_coef"] == 0
