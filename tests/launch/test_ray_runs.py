"""Runs with a pretended Ray: what is started, waited for, stopped; and what is left alone."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch.machine import Machine, flag, interrupt, wait_until


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.fixture
def ports() -> dict[str, str]:
    return {"RAY_PORT": free_port(), "DASHBOARD_PORT": free_port()}


@pytest.fixture
def busy_port() -> Iterator[socket.socket]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server


def port_of(server: socket.socket) -> str:
    return str(server.getsockname()[1])


def alive(machine: Machine) -> list[int]:
    """Pretended Ray processes that still run."""
    started = [int(call[2]) for call in machine.notes("ray", "running")]
    return [pid for pid in started if Path(f"/proc/{pid}").exists()]


def test_a_run_from_doctor_to_the_end(machine: Machine, ports: dict[str, str]) -> None:
    done = machine.run("--lr", "1e-6", **ports)
    assert done.returncode == 0, done.stderr
    assert "step 1" in done.stdout
    calls = [call for call in machine.notes() if call[0] in ("ray", "spader-slime")]
    names = [" ".join(call[: 3 if call[1] == "job" else 2]) for call in calls]
    # Asked until Ray is there: how often, and whether before it started, depends on the machine.
    assert "ray status" in names and names.index("ray running") < names.index("ray job submit")
    calls = [call for call in calls if call[1] not in ("running", "status")]
    names = [name for name in names if name not in ("ray running", "ray status")]
    assert names == [
        "spader-slime doctor",
        "ray start",
        "ray job submit",
        "ray job logs",
        "ray job status",
        "ray ended",
    ]
    start, submit = calls[1], calls[2]
    assert flag(start, "--port") == ports["RAY_PORT"] and flag(start, "--num-gpus") == "8"
    assert flag(submit, "--address") == f"http://127.0.0.1:{ports['DASHBOARD_PORT']}"
    assert flag(submit, "--lr") == "1e-6"
    assert alive(machine) == []


def test_where_logs_and_checkpoints_go_is_said(machine: Machine, ports: dict[str, str]) -> None:
    done = machine.run(SKIP_DOCTOR="1", STAMP="now", **ports)
    run = machine.folder / "run"
    assert f"log {run}/logs/now-train.log" in done.stderr
    assert f"finished; checkpoints in {run}/checkpoints" in done.stderr
    assert (run / "logs/now-train.log").read_text() == "step 1\n"
    assert (run / "logs/now-submit.log").read_text().startswith("ray job submit ")
    assert (run / "logs/now-ray-0.log").exists()
    assert machine.notes("spader-slime") == []


def test_a_failed_job_is_a_failed_script(machine: Machine, ports: dict[str, str]) -> None:
    done = machine.run(STATES="failed", **ports)
    assert done.returncode == 1
    assert "error: the job failed; see " in done.stderr
    assert machine.notes("ray", "ended") and alive(machine) == []
    assert machine.notes("ray", "job", "stop") == []


def test_a_broken_log_stream_is_not_the_end(machine: Machine, ports: dict[str, str]) -> None:
    done = machine.run(STATES="RUNNING,unknown,succeeded", **ports)
    assert done.returncode == 0, done.stderr
    assert len(machine.notes("ray", "job", "logs")) == 3
    assert len(machine.notes("ray", "job", "submit")) == 1


@pytest.mark.parametrize("refusal", ["Failed to connect to Ray", "No available agent to submit"])
def test_a_job_server_that_comes_late(
    machine: Machine, ports: dict[str, str], refusal: str
) -> None:
    done = machine.run(REFUSALS="2", REFUSAL=refusal, **ports)
    assert done.returncode == 0, done.stderr
    assert len(machine.notes("ray", "job", "submit")) == 3


def test_a_refused_job(machine: Machine, ports: dict[str, str]) -> None:
    done = machine.run(REFUSALS="1", REFUSAL="invalid runtime_env", STAMP="now", **ports)
    assert done.returncode == 1
    assert "error: Ray refused the job; see " in done.stderr
    assert "invalid runtime_env" in (machine.folder / "run/logs/now-submit.log").read_text()
    assert machine.notes("ray", "job", "stop") == [] and alive(machine) == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_it_stops_its_job_and_its_ray(
    machine: Machine, ports: dict[str, str], how: signal.Signals
) -> None:
    script = machine.start(JOB_HANGS="1", **ports)
    wait_until(lambda: machine.notes("ray", "job", "logs"))
    said = interrupt(script, how)
    assert script.returncode == 128 + how, said
    (submit,), (stop,) = machine.notes("ray", "job", "submit"), machine.notes("ray", "job", "stop")
    assert stop[-1] == flag(submit, "--submission-id")
    assert machine.notes()[-1][:2] == ["ray", "ended"] and alive(machine) == []
    assert machine.notes("ray", "stop") == []  # would end every Ray on the machine


def test_attached_it_leaves_ray_alone(machine: Machine) -> None:
    script = machine.start(ROLE="attach", JOB_HANGS="1", JOB_ADDRESS="http://10.0.0.9:8265")
    wait_until(lambda: machine.notes("ray", "job", "logs"))
    interrupt(script, signal.SIGTERM)
    assert {tuple(call[:3]) for call in machine.notes("ray")} == {
        ("ray", "job", "submit"),
        ("ray", "job", "logs"),
        ("ray", "job", "stop"),
    }


def test_a_busy_port(machine: Machine, ports: dict[str, str], busy_port: socket.socket) -> None:
    for name in ports:
        done = machine.run(**(ports | {name: port_of(busy_port)}))
        assert done.returncode == 1
        assert f"error: port {port_of(busy_port)} is in use" in done.stderr
        assert f"set {name}, or ROLE=attach" in done.stderr
    assert machine.notes("ray", "start") == []


def test_a_worker_that_never_joins(machine: Machine, ports: dict[str, str]) -> None:
    done = machine.run(NODES="2", MASTER_ADDR="10.0.0.1", JOIN_TIMEOUT="1", **ports)
    assert done.returncode == 1
    assert "error: 8 of 16 GPUs joined within 1 s (JOIN_TIMEOUT)" in done.stderr
    assert machine.notes("ray", "job") == [] and alive(machine) == []


def test_the_head_waits_for_all_nodes(machine: Machine, ports: dict[str, str]) -> None:
    done = machine.run(NODES="2", MASTER_ADDR="10.0.0.1", JOINED="16", **ports)
    assert done.returncode == 0, done.stderr
    assert flag(machine.notes("ray", "start")[0], "--node-ip-address") == "10.0.0.1"
    assert flag(machine.notes("ray", "job", "submit")[0], "--actor-num-nodes") == "2"


def test_a_ray_that_dies(machine: Machine, ports: dict[str, str]) -> None:
    done = machine.run(RAY_DIES="1", JOINED="0", **ports)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: Ray ended while it started; see ")


def test_a_job_server_that_does_not_come_up(machine: Machine, ports: dict[str, str]) -> None:
    done = machine.run(REFUSALS="999", REFUSAL="Failed to connect", JOIN_TIMEOUT="1", **ports)
    assert done.returncode == 1
    assert f"error: no Ray job server at http://127.0.0.1:{ports['DASHBOARD_PORT']}" in done.stderr
    assert machine.notes("ray", "job", "logs") == [] and alive(machine) == []


def worker(port: str) -> dict[str, str]:
    return {"ROLE": "worker", "MASTER_ADDR": "127.0.0.1", "RAY_PORT": port}


def test_a_worker_ends_with_its_head(machine: Machine, busy_port: socket.socket) -> None:
    script = machine.start(**worker(port_of(busy_port)))
    wait_until(lambda: machine.notes("ray", "running"))
    assert flag(machine.notes("ray", "start")[0], "--address") == f"127.0.0.1:{port_of(busy_port)}"
    busy_port.close()
    os.kill(alive(machine)[0], signal.SIGTERM)  # as Ray does when its head is gone
    said = script.communicate(timeout=60)[1]
    assert script.returncode == 0 and said.endswith("the head is gone: done\n")
    assert machine.notes("spader-slime") == machine.notes("ray", "job") == []


def test_a_worker_that_breaks_says_so(machine: Machine, busy_port: socket.socket) -> None:
    done = machine.run(RAY_DIES="1", **worker(port_of(busy_port)))
    assert done.returncode == 1
    assert "error: Ray ended on this node (exit code 1) while the head is up" in done.stderr


def test_a_worker_without_a_head(machine: Machine) -> None:
    done = machine.run(JOIN_TIMEOUT="1", **worker(free_port()))
    assert done.returncode == 1
    assert done.stderr.startswith("error: no Ray head at 127.0.0.1:") and "1 s" in done.stderr
    assert machine.notes("ray") == []
