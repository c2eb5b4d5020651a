"""The engine as a process: how it starts, fails to start, and ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.engines import Client

from spader_slime.errors import EngineError
from spader_slime.local.engine.__main__ import main
from spader_slime.local.engine.launch import EngineProcess

PARENT = """
import sys, time
from spader_slime.local.engine.launch import EngineProcess
engine = EngineProcess(sys.argv[1], context_length=64, max_running=2).start()
print(engine.process.pid, engine.url, flush=True)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_it_ends_when_its_parent_is_killed(folders: list[Path]) -> None:
    command = [sys.executable, "-c", PARENT, str(folders[0])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, url = parent.stdout.readline().split()
        assert Client(url).call("/health")[0] == 200
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while alive(int(pid)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_folder_that_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "nothing"}))
    assert main(["--model", str(tmp_path), "--port", "0"]) == 1
    assert "can't be loaded" in capsys.readouterr().err


def test_a_failed_start_says_why(tmp_path: Path) -> None:
    engine = EngineProcess(tmp_path / "absent")
    with pytest.raises(EngineError, match=r"did not start: engine: .*absent"):
        engine.start()
    assert engine.process is None
