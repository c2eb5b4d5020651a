"""A teacher's servers, with a small real one in SGLang's place."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from launch.machine import Machine, interrupt, wait_until

SCRIPT = "eopd/serve-teacher.sh"
# Has a child, as SGLang does; is ready at the second question; ends at DIES_AT.
SERVER = """
import http.server, os, subprocess, sys, time
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
with open(os.environ["NOTES"], "a") as notes:
    child = subprocess.Popen(["sleep", "60"])
    for pid in (os.getpid(), child.pid):
        print("server", pid, words["--port"], os.environ["CUDA_VISIBLE_DEVICES"], file=notes)
if words["--port"] == os.environ.get("DIES_AT"):
    sys.exit("out of memory")
asked = 0
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global asked
        asked += self.path == "/health_generate"
        self.send_response(200 if asked > 1 else 503)
        self.end_headers()
http.server.HTTPServer((words["--host"], int(words["--port"])), Handler).serve_forever()
"""


def two_free_ports() -> int:
    """The first of two neighbouring ones."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


@pytest.fixture
def teacher(machine: Machine) -> Iterator[dict[str, str]]:
    """Variables of a teacher on two GPUs; what a failing test leaves behind is ended."""
    machine.write("models/teacher/config.json")
    machine.write("site/sglang/__init__.py")
    machine.write("site/sglang/launch_server.py", SERVER)
    yield {
        "TEACHER": str(machine.folder / "models/teacher"), "TEACHER_GPUS": "4,5",
        "TEACHER_PORT": str(two_free_ports()),
    }  # fmt: skip
    for pid in alive(machine):
        os.kill(pid, signal.SIGKILL)


def alive(machine: Machine) -> list[int]:
    """Servers and their children that still run."""
    pids = [int(call[1]) for call in machine.notes("server")]
    return [pid for pid in pids if running(pid)]


def running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def serve(machine: Machine, **variables: str) -> subprocess.Popen[str]:
    return machine.start(SCRIPT, subprocess.PIPE, **variables)


def test_commands_and_nothing_started(machine: Machine, teacher: dict[str, str]) -> None:
    four = teacher | {"TEACHER_GPUS": "4 5 6 7", "TEACHER_TP": "2", "TEACHER_PORT": "9000"}
    first, second = machine.commands("--dtype", "bfloat16", script=SCRIPT, **four)
    assert first[:2] == ["env", "CUDA_VISIBLE_DEVICES=4,5"]
    assert second[1] == "CUDA_VISIBLE_DEVICES=6,7" and first[3:5] == ["-m", "sglang.launch_server"]
    assert shlex.join(first[5:]) == (
        f"--model-path {shlex.quote(four['TEACHER'])} --host 127.0.0.1 --port 9000 --tp-size 2 "
        "--mem-fraction-static 0.8 --chunked-prefill-size 4096 --dtype bfloat16"
    )
    assert second[second.index("--port") + 1] == "9001"
    assert machine.notes("server") == [] and not (machine.folder / "run").exists()


def test_all_gpus_unless_some_are_named(machine: Machine, teacher: dict[str, str]) -> None:
    seen = machine.commands(script=SCRIPT, **(teacher | {"TEACHER_GPUS": "unset", "GPUS": "3"}))
    assert [words[1][-1] for words in seen] == ["0", "1", "2"]
    some = teacher | {"TEACHER_GPUS": "unset", "CUDA_VISIBLE_DEVICES": "6,7"}
    assert [words[1][-1] for words in machine.commands(script=SCRIPT, **some)] == ["6", "7"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_ready_then_stopped_with_all_children(
    machine: Machine, teacher: dict[str, str], how: signal.Signals
) -> None:
    other = subprocess.Popen(["sleep", "60"])
    script = serve(machine, **teacher)
    assert script.stdout is not None
    port = int(teacher["TEACHER_PORT"])
    urls = f"http://127.0.0.1:{port} http://127.0.0.1:{port + 1}"
    assert script.stdout.readline() == f'TEACHER_URLS="{urls}"\n'
    assert {call[3] for call in machine.notes("server")} == {"4", "5"}
    assert len(alive(machine)) == 4
    assert urlopen(f"http://127.0.0.1:{port}/health", timeout=30).status == 200
    said = interrupt(script, how)
    assert script.returncode == 128 + how and said.endswith("the teacher's servers are stopped\n")
    assert alive(machine) == [] and other.poll() is None
    other.kill()


def test_a_server_that_ends_takes_the_others_along(
    machine: Machine, teacher: dict[str, str]
) -> None:
    script = serve(machine, **teacher, DIES_AT=str(int(teacher["TEACHER_PORT"]) + 1))
    _, said = script.communicate(timeout=60)
    log = machine.folder / "run/server-1.log"
    assert script.returncode == 1 and f"error: server 1 ended; see {log}" in said
    assert "out of memory" in log.read_text() and "sglang.launch_server" in log.read_text()
    wait_until(lambda: not alive(machine))


def test_a_server_lost_later_ends_the_script(machine: Machine, teacher: dict[str, str]) -> None:
    script = serve(machine, **teacher)
    assert script.stdout is not None and script.stdout.readline().startswith("TEACHER_URLS")
    os.kill(int(machine.notes("server")[0][1]), signal.SIGKILL)
    _, said = script.communicate(timeout=60)
    assert script.returncode == 1 and "error: server " in said
    assert alive(machine) == []


WRONG = {
    "TEACHER is not set": {"TEACHER": ""},
    "TEACHER: no ": {"TEACHER": "elsewhere"},
    "TEACHER_TP is 'all'": {"TEACHER_TP": "all"},
    "TEACHER_GPUS names 2 GPUs, no multiple of TEACHER_TP=4": {"TEACHER_TP": "4"},
    "nvidia-smi shows no GPU; set TEACHER_GPUS": {"TEACHER_GPUS": "", "GPUS": "0"},
    "TEACHER_ADDRESS is not set; TEACHER_HOST=0.0.0.0": {"TEACHER_HOST": "0.0.0.0"},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_a_user_can_get_wrong(machine: Machine, teacher: dict[str, str], message: str) -> None:
    done = machine.run(script=SCRIPT, **(teacher | WRONG[message]))
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {message}") and done.stderr.count("\n") == 1
    assert machine.notes("server") == []


def test_a_busy_port(machine: Machine, teacher: dict[str, str]) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", int(teacher["TEACHER_PORT"]) + 1))
        server.listen()
        done = machine.run(script=SCRIPT, **teacher)
    port = int(teacher["TEACHER_PORT"]) + 1
    assert done.returncode == 1
    assert f"error: port {port} is in use; set TEACHER_PORT" in done.stderr
    assert machine.notes("server") == []  # not the first one either


def test_a_teacher_that_takes_too_long(machine: Machine, teacher: dict[str, str]) -> None:
    machine.write("site/sglang/launch_server.py", "import time\ntime.sleep(60)\n")
    done = machine.run(script=SCRIPT, TEACHER_WAIT="1", **teacher)
    assert done.returncode == 1
    assert "error: server 0 is not ready within 1 s (TEACHER_WAIT); see " in done.stderr
