"""A pretended cluster node: programs that only note their calls, a slime checkout, checkpoints."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = {  # run script: (slime's model file, Hugging Face folder)
    "run-qwen3-8b-spader.sh": ("qwen3-8B", "Qwen3-8B"),
    "run-qwen3-8b-grpo.sh": ("qwen3-8B", "Qwen3-8B"),
    "run-llama3.1-8b-spader.sh": ("llama3.1-8B-Instruct", "Llama-3.1-8B-Instruct"),
    "run-qwen3-30b-a3b-spader.sh": ("qwen3-30B-A3B", "Qwen3-30B-A3B"),
}
QWEN = "run-qwen3-8b-spader.sh"
NOTE = """#!/bin/bash
printf -v call "%q " "${0##*/}" "$@"
echo "$call" >>"$NOTES"
"""  # one write a call: calls overlap
PROGRAMS = {
    "ray": """
tries="$(grep -c "^ray $1 $2 " "$NOTES")"
case "$1 $2" in
    start*)
        trap 'echo "ray ended $$" >>"$NOTES"; exit 0' TERM
        echo "ray running $$" >>"$NOTES"
        [ -z "${RAY_DIES:-}" ] || exit 1
        while :; do sleep 0.05; done ;;
    status*) grep -q "^ray running" "$NOTES" && echo " 0.0/${JOINED:-8}.0 GPU (0.0 used)" ;;
    "job submit") [ "$tries" -gt "${REFUSALS:-0}" ] || { echo "${REFUSAL:-}"; exit 1; } ;;
    "job logs") echo "step 1"; [ -z "${JOB_HANGS:-}" ] || exec sleep 60 ;;
    "job status") echo "Job 'x' $(cut -d, -f"$tries" <<<"${STATES:-succeeded}")" ;;
esac
""",
    "nvidia-smi": """
[ "$1" = -L ] || { echo "GPU0 X NV18"; exit; }
for ((i = 0; i < ${GPUS:-8}; i++)); do echo "GPU $i: NVIDIA H200"; done
""",
    "spader-slime": 'exit "${DOCTOR_CODE:-0}"\n',
    "srun": """
case "$*" in
    *hostname*) echo "fe80::1 10.1.0.1" ;;
    *) echo "master $MASTER_ADDR" >>"$NOTES" ;;
esac
""",
    "scontrol": 'printf "node%s\\n" 1 2\n',
}
ROUTER = """
class RouterArgs:
    @staticmethod
    def add_cli_args(parser, use_router_prefix, exclude_host_port):
        parser.add_argument("--router-policy", choices=["random", "consistent_hashing"])
"""


class Machine:
    """Everything below one folder, whose name may be any."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.notes_file = folder, folder / "notes"
        for name, text in PROGRAMS.items():
            self.write(f"bin/{name}", NOTE + text).chmod(0o755)
        for model_file, model in SCRIPTS.values():
            self.write(f"slime/scripts/models/{model_file}.sh", "MODEL_ARGS=(--num-layers 1)\n")
            self.write(f"models/{model}/config.json")
            self.write(f"models/{model}_torch_dist/latest_checkpointed_iteration.txt")
        self.write("data/qampari/train.parquet")
        self.write("data/qampari/dev.parquet")
        self.write("Megatron-LM/megatron/training/__init__.py")
        self.write("site/sglang_router/__init__.py")
        self.write("site/sglang_router/router_args.py", ROUTER)
        self.write("notes")

    def write(self, name: str, text: str = "") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def environment(self, **variables: str) -> dict[str, str]:
        """Few variables of the surroundings, so that theirs don't count."""
        places = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.folder / "site"),
            "HOME": str(self.folder),
            "NOTES": str(self.notes_file),
            "PYTHON": sys.executable,
            "POLL": "0.05",
            "SLIME_DIR": str(self.folder / "slime"),
            "MODELS_DIR": str(self.folder / "models"),
            "DATA_DIR": str(self.folder / "data"),
            "RUN_DIR": str(self.folder / "run"),
        }
        return {name: value for name, value in (places | variables).items() if value != "unset"}

    def run(
        self, *arguments: str, script: str = QWEN, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """A run script to its end."""
        return subprocess.run(
            ["bash", str(ROOT / "launch" / script), *arguments],
            env=self.environment(**variables),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def start(
        self, script: str = QWEN, stdout: int = subprocess.DEVNULL, **variables: str
    ) -> subprocess.Popen[str]:
        """A script in the background."""
        return subprocess.Popen(
            ["bash", str(ROOT / "launch" / script)],
            env=self.environment(**variables),
            cwd=self.folder,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )

    def commands(self, *arguments: str, script: str = QWEN, **variables: str) -> list[list[str]]:
        """What a dry run prints, as words."""
        done = self.run(*arguments, script=script, DRY_RUN="1", **variables)
        assert done.returncode == 0, done.stderr
        return [shlex.split(line) for line in done.stdout.splitlines()]

    def job(self, *arguments: str, script: str = QWEN, **variables: str) -> list[str]:
        """The command of a dry run that hands over the job."""
        commands = self.commands(*arguments, script=script, **variables)
        (job,) = (words for words in commands if words[:3] == ["ray", "job", "submit"])
        return job

    def notes(self, *beginnings: str) -> list[list[str]]:
        """Calls of the pretended programs, in order; only those that begin with these words."""
        calls = [shlex.split(line) for line in self.notes_file.read_text().splitlines()]
        return [call for call in calls if call[: len(beginnings)] == list(beginnings)]


def wait_until(happened: Callable[[], object], seconds: float = 30) -> None:
    """Poll; fails when it does not happen."""
    ends = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < ends, "did not happen"
        time.sleep(0.02)


def interrupt(process: subprocess.Popen[str], how: signal.Signals) -> str:
    """Signal a script; what it said on stderr."""
    process.send_signal(how)
    return process.communicate(timeout=60)[1]


def flag(words: list[str], name: str) -> str | None:
    """The value of a flag, as argparse reads it: the last one counts."""
    places = [i for i, word in enumerate(words) if word == name]
    return words[places[-1] + 1] if places else None
