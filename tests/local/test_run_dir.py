"""The run's folder: lock, whole writes, metrics that survive a kill, settings that don't mix."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from spader_slime.errors import ConfigError, DataError
from spader_slime.local.metrics_log import read_metrics
from spader_slime.local.run_dir import RunDir
from spader_slime.local.settings import TrainConfig


def steps(run: RunDir, phase: str) -> list[int]:
    return [line["iteration"] for line in run.metrics.read() if line["phase"] == phase]


def test_a_line_holds_iteration_phase_and_values(tmp_path: Path) -> None:
    with RunDir(tmp_path / "run") as run:
        run.metrics.log("train", 3, {"spader/f1": 0.25, "time/rollout": 1})
        run.metrics.log("eval", 4, {"eval/dev/spader/f1": float("nan")})
    text = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert [json.loads(row) for row in text.splitlines()] == [
        {"iteration": 3, "phase": "train", "spader/f1": 0.25, "time/rollout": 1.0},
        {"iteration": 4, "phase": "eval", "eval/dev/spader/f1": None},
    ]


def test_going_on_drops_the_lines_past_the_checkpoint(tmp_path: Path) -> None:
    with RunDir(tmp_path) as run:
        for step in range(5):
            run.metrics.log("train", step, {"a": step})
        run.metrics.log("eval", 0, {"a": 0})
    with RunDir(tmp_path) as run:
        run.metrics.rewind("train", 3)
        assert steps(run, "train") == [0, 1, 2]
        assert steps(run, "eval") == [0]
        run.metrics.log("train", 3, {"a": 30})
        assert steps(run, "train") == [0, 1, 2, 3]


def test_a_torn_last_line_is_cut_before_the_next_one(tmp_path: Path) -> None:
    with RunDir(tmp_path) as run:
        run.metrics.log("train", 0, {"a": 1})
    with run.metrics.path.open("a") as file:
        file.write('{"iteration": 1, "pha')
    assert len(read_metrics(run.metrics.path)) == 1
    with RunDir(tmp_path) as run:
        run.metrics.log("train", 1, {"a": 2})
    assert steps(run, "train") == [0, 1]


def test_a_broken_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"iteration": 0}\nnonsense\n{"iteration": 1}\n')
    with pytest.raises(DataError, match=r"metrics\.jsonl:2"):
        read_metrics(path)


def test_tensorboard_forgets_what_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunDir(tmp_path) as run:
        for step in range(4):
            run.metrics.log("train", step, {"f1": step / 4})
    later = time.time() + 60  # TensorBoard reads event files in the order of their names
    monkeypatch.setattr(time, "time", lambda: later)
    with RunDir(tmp_path) as run:
        run.metrics.rewind("train", 2)
        run.metrics.log("train", 2, {"f1": 0.875})
    events = EventAccumulator(str(tmp_path / "tensorboard" / "train"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("f1")] == [(0, 0.0), (1, 0.25), (2, 0.875)]


def test_a_second_run_cannot_write_to_the_folder(tmp_path: Path) -> None:
    with (
        RunDir(tmp_path),
        pytest.raises(ConfigError, match=f"run.dir.*process {os.getpid()}"),
        RunDir(tmp_path),
    ):
        pass
    with RunDir(tmp_path):  # free again
        pass


HOLD = """
import sys
from spader_slime.local.run_dir import RunDir
with RunDir(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_killed_run_leaves_no_lock(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(ConfigError, match=str(holder.pid)), RunDir(tmp_path):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with RunDir(tmp_path):
        pass


def test_json_is_written_whole_and_finite(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    path = run.write_json(tmp_path / "deep" / "x.json", {"a": float("inf"), "b": [1, float("nan")]})
    assert json.loads(path.read_text()) == {"a": None, "b": [1, None]}
    assert [p.name for p in path.parent.iterdir()] == ["x.json"]


def test_other_settings_need_another_folder(tmp_path: Path) -> None:
    config = TrainConfig()
    with RunDir(tmp_path) as run:
        run.write_config(config)
        config.run.iterations += 10  # longer is fine
        run.write_config(config)
        config.spader.gamma = 1.0
        with pytest.raises(ConfigError, match=r"spader\.gamma.*1\.0.*0\.9"):
            run.write_config(config)
