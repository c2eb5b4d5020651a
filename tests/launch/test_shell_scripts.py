"""All shell scripts: shellcheck, and the Slurm job with pretended srun and scontrol."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from launch.machine import ROOT, Machine

SCRIPTS = sorted([*(ROOT / "launch").rglob("*.sh"), *(ROOT / "launch").rglob("*.sbatch")])
SBATCH = ROOT / "launch/slurm/spader.sbatch"


def test_shellcheck() -> None:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck not installed")
    command = [shellcheck, "--severity", "style", *map(str, SCRIPTS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def sbatch(machine: Machine, **variables: str) -> subprocess.CompletedProcess[str]:
    surroundings = {"SLURM_JOB_NODELIST": "node[1-2]", "SLURM_SUBMIT_DIR": str(ROOT)}
    return subprocess.run(
        ["bash", str(SBATCH), "--lr", "2e-6"],
        env=machine.environment(**(surroundings | variables)),
        capture_output=True,
        text=True,
        check=False,
    )


def test_slurm_runs_the_script_on_every_node(machine: Machine) -> None:
    assert sbatch(machine, SRUN_ARGS="--container-image x").returncode == 0
    ask, run = machine.notes("srun")
    assert ask[-2:] == ["hostname", "--ip-address"] and "node1" in ask
    assert machine.notes("master") == [["master", "10.1.0.1"]]
    assert run[1:4] == ["--kill-on-bad-exit=1", "--container-image", "x"]
    assert run[4:] == ["bash", "launch/run-qwen3-8b-spader.sh", "--lr", "2e-6"]


def test_a_node_of_a_slurm_job_knows_its_part(machine: Machine) -> None:
    slurm = {"SLURM_NNODES": "2", "MASTER_ADDR": "10.1.0.1"}
    _, head, job, _ = machine.commands(SLURM_NODEID="0", **slurm)
    (other,) = machine.commands(SLURM_NODEID="1", **slurm)
    assert "--head" in head and "--address" in other
    assert job[job.index("--actor-num-nodes") + 1] == "2"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"SLURM_JOB_NODELIST": ""}, "error: not in a Slurm job"),
        ({"SLURM_SUBMIT_DIR": "/"}, "error: no launch/run-qwen3-8b-spader.sh in /"),
    ],
)
def test_a_job_submitted_wrongly(machine: Machine, variables: dict[str, str], message: str) -> None:
    done = sbatch(machine, **variables)
    assert done.returncode == 1 and done.stderr.startswith(message)
