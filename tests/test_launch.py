"""The launch scripts, with an interpreter that only notes what it is asked to do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYTHON = """#!/bin/bash
echo "$*" >>"$NOTES"
case "$*" in
    *"pip show"*) exit "${KNOWS_TORCH:-1}" ;;
    *--index-url*) exit "${INDEX_FAILS:-0}" ;;
esac
"""


class Machine:
    """A folder with a fake virtual environment and, where asked, a fake GPU."""

    def __init__(self, root: Path) -> None:
        self.root, self.notes = root, root / "notes"
        self._program("venv/bin/python", PYTHON)
        self._program("bin/nvidia-smi", "#!/bin/bash\nexit ${NO_GPU:-1}\n")

    def _program(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def install(self, extras: str = "local", **variables: str) -> list[str]:
        """The installations that `make_environment` asks for."""
        self.notes.write_text("")
        script = f"source '{ROOT}/launch/environment.sh'; make_environment {extras}"
        done = bash(
            script,
            NOTES=str(self.notes),
            VENV=str(self.root / "venv"),
            PATH=f"{self.root / 'bin'}:{os.environ['PATH']}",
            **variables,
        )
        assert done.returncode == 0, done.stderr
        return [line for line in self.notes.read_text().splitlines() if "pip install" in line]


def bash(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_a_gpu_torch_is_the_cpu_build(machine: Machine) -> None:
    torch, package = machine.install()
    assert "--index-url https://download.pytorch.org/whl/cpu torch==" in torch
    assert package.endswith(f"-e {ROOT}[local]")
    assert f"-c {ROOT}/launch/constraints.txt" in package


def test_with_a_gpu_torch_is_the_default_build(machine: Machine) -> None:
    torch, _ = machine.install(NO_GPU="0")
    assert "--index-url" not in torch
    assert "torch==" in torch


def test_an_index_that_can_not_be_reached_is_no_obstacle(machine: Machine) -> None:
    cpu, default, _ = machine.install(INDEX_FAILS="1")
    assert "--index-url" in cpu
    assert "--index-url" not in default
    assert "torch==" in default


def test_torch_that_is_there_stays(machine: Machine) -> None:
    (package,) = machine.install(KNOWS_TORCH="0")
    assert "torch==" not in package


def test_nothing_is_installed_twice(machine: Machine) -> None:
    assert len(machine.install()) == 2
    assert machine.install() == []
    assert len(machine.install("local,dev")) == 2  # other extras are another matter


def test_a_failed_installation_is_tried_again(machine: Machine) -> None:
    (machine.root / "venv/bin/python").write_text(PYTHON + "case $* in *-e*) exit 1 ;; esac\n")
    with pytest.raises(AssertionError):
        machine.install()
    (machine.root / "venv/bin/python").write_text(PYTHON)
    assert len(machine.install()) == 2


@pytest.mark.parametrize("script", ["quickstart.sh", "test.sh"])
def test_a_wrong_interpreter_is_told_in_one_line(script: str, tmp_path: Path) -> None:
    done = bash(f"bash '{ROOT}/launch/{script}'", PYTHON="no-such-python", VENV=str(tmp_path / "v"))
    assert done.returncode == 1
    assert done.stderr.startswith("error: no Python 3.10, 3.11 or 3.12 found (no-such-python)")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--slime {empty}", "--slime '{empty}': not a checkout, there is no slime/rollout/ in it"),
        ("--slime", "--slime '': not a checkout, there is no slime/rollout/ in it"),
        (
            "--slime {slime} --megatron {empty}",
            "--megatron '{empty}': not a checkout, there is no megatron/training/ in it",
        ),
    ],
)
def test_a_wrong_checkout_is_told_in_one_line(words: str, message: str, tmp_path: Path) -> None:
    folders = {"slime": tmp_path / "slime", "empty": tmp_path / "empty"}
    (folders["slime"] / "slime/rollout").mkdir(parents=True)
    folders["empty"].mkdir()
    done = bash(f"bash '{ROOT}/launch/test.sh' {words.format(**folders)}", VENV=str(tmp_path / "v"))
    assert done.returncode == 1
    assert done.stderr == f"error: {message.format(**folders)}\n"


def test_inside_slime_the_fixtures_come_first(tmp_path: Path) -> None:
    """Then every test that needs slime, with pytest's arguments."""
    slime, venv = tmp_path / "a b", tmp_path / "v"
    (slime / "slime/rollout").mkdir(parents=True)
    for name in ("python", "pytest"):
        program = venv / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/bash\necho "{name}|$SLIME_SRC|$*"\n')
        program.chmod(0o755)
    done = bash(f"bash '{ROOT}/launch/test.sh' --slime '{slime}' -x", VENV=str(venv))
    assert done.returncode == 0, done.stderr
    record, run = done.stdout.splitlines()[-2:]
    assert record == f"python|{slime}|tests/contracts/record_seams.py {slime}"
    assert run.startswith(f"pytest|{slime}|-n 2 --dist loadfile tests/") and run.endswith(" -x")
    for name in ("contracts/test_on_slime", "launch/test_slime_flags", "data/test_dataset"):
        assert f"tests/{name}.py" in run
