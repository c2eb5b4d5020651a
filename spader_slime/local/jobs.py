"""Run many training jobs as subprocesses, a few at a time, each logging to its own file."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from spader_slime.errors import SpaderError


@dataclass(frozen=True)
class Job:
    """One `spader-slime train` run: done when `out/result.json` exists."""

    name: str
    config: Path
    overrides: tuple[str, ...]
    out: Path

    @property
    def result(self) -> Path:
        return self.out / "result.json"

    def command(self) -> list[str]:
        base = [sys.executable, "-m", "spader_slime.cli", "train", "--config", str(self.config)]
        return [*base, *self.overrides, f"run.dir={self.out}"]


def run_jobs(jobs: Sequence[Job], parallel: int, tell: Callable[[str], None] = print) -> None:
    """Run all jobs that have no result yet, at most `parallel` at once, each on one thread.

    Raises:
        SpaderError: a job failed; the message names its log file.
    """
    waiting = deque(job for job in jobs if not job.result.exists())
    total = len(waiting)
    running: dict[str, tuple[Job, subprocess.Popen[bytes], float]] = {}
    while waiting or running:
        while waiting and len(running) < parallel:
            job = waiting.popleft()
            running[job.name] = (job, _start(job), time.monotonic())
        for name in [n for n, (_, process, _) in running.items() if process.poll() is not None]:
            job, process, since = running.pop(name)
            if process.returncode:
                _stop(running)
                raise SpaderError(f"job {name} failed: see {job.out / 'log.txt'}")
            left = len(waiting) + len(running)
            tell(f"[{total - left}/{total}] {name} in {time.monotonic() - since:.0f} s")
        time.sleep(0.2)


def _start(job: Job) -> subprocess.Popen[bytes]:
    job.out.mkdir(parents=True, exist_ok=True)
    log = (job.out / "log.txt").open("ab")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return subprocess.Popen(job.command(), stdout=log, stderr=subprocess.STDOUT, env=env)


def _stop(running: dict[str, tuple[Job, subprocess.Popen[bytes], float]]) -> None:
    for _, process, _ in running.values():
        process.terminate()
