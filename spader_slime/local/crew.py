"""Trainer processes: started, fed, watched and ended."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from spader_slime import errors
from spader_slime.errors import DataError, SpaderError
from spader_slime.local import worker
from spader_slime.local.worker import Failure, pack, unpack
from spader_slime.megatron.grid import Place, dp_rank_of
from spader_slime.megatron.learner import Learner
from spader_slime.megatron.settings import LearnerSettings

GRACE_S = 3.0  # after one process failed, for the others to say why they failed too
FAULTS = ("DataError", "CheckpointError")  # of what was given, not of the process


class Alone:
    """A grid of one: the learner lives in this process."""

    def __init__(self, settings: LearnerSettings, hf_dir: Path) -> None:
        self._learner: Learner | None = Learner(settings, hf_dir)

    def call(self, name: str, inputs: Sequence[tuple[Any, ...]]) -> list[Any]:
        """One answer, for the one data-parallel rank."""
        if self._learner is None:
            raise SpaderError("the trainer is closed")
        check_inputs(inputs, 1)
        return [worker.OPERATIONS[name](self._learner, *inputs[0])]

    def process_ids(self) -> list[int]:
        """None: no process of its own."""
        return []

    def close(self) -> None:
        """Leave the grid."""
        if self._learner is not None:
            self._learner.close()
            self._learner = None


class Crew:
    """A grid of processes, each with a learner of its own, each on its own pipe."""

    def __init__(self, settings: LearnerSettings, hf_dir: Path) -> None:
        self.settings, self._closed = settings, False
        self._meeting = tempfile.TemporaryDirectory(prefix="spader-grid-")
        store = f"file://{self._meeting.name}/store"
        self.members = [
            Member(rank, settings, hf_dir, Place(rank, store))
            for rank in range(settings.world_size)
        ]
        try:
            self._answers()
        except SpaderError:
            self.close()
            raise

    def call(self, name: str, inputs: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run an operation on every process.

        Args:
            name: a key of `worker.OPERATIONS`.
            inputs: its arguments after the learner, for every data-parallel rank.

        Returns:
            One answer per data-parallel rank.
        """
        if self._closed:
            raise SpaderError("the trainer is closed")
        check_inputs(inputs, self.settings.dp)
        messages = [pack((name, values)) for values in inputs]
        for member in self.members:
            member.send(messages[dp_rank_of(member.rank, self.settings)])
        answers = self._answers()
        return [answers[rank * self.settings.tp] for rank in range(self.settings.dp)]

    def _answers(self) -> list[Any]:
        """Everyone's answer, or the error that explains why there is none."""
        answers: dict[int, Any] = {}
        deadline: float | None = None
        while len(answers) < len(self.members) and not _passed(deadline):
            for member in self._ready(answers, deadline):
                answers[member.rank] = member.receive()
            if deadline is None and any(isinstance(a, Failure) for a in answers.values()):
                deadline = time.monotonic() + GRACE_S
        failures = [a for a in answers.values() if isinstance(a, Failure)]
        if failures:
            raise self._explain(failures)
        return [answers[member.rank] for member in self.members]

    def _ready(self, answers: dict[int, Any], deadline: float | None) -> list[Member]:
        missing = [member for member in self.members if member.rank not in answers]
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        woken = wait([x for m in missing for x in (m.pipe, m.process.sentinel)], left)
        return [m for m in missing if m.pipe in woken or m.process.sentinel in woken]

    def _explain(self, failures: list[Failure]) -> SpaderError:
        """A fault of the input that everyone found leaves the grid as it was; else it is closed."""
        cause = min(failures, key=lambda failure: failure.weight)
        if cause.kind not in FAULTS or len(failures) < len(self.members):
            self.close()
        if cause.kind in FAULTS:
            kind: type[SpaderError] = getattr(errors, cause.kind)
            return kind(cause.text)
        what = cause.text if cause.kind is None else f"failed: {cause.kind}: {cause.text}"
        where = f"trainer process {cause.rank + 1} of {len(self.members)}"
        return SpaderError(f"{where} {what}\n{cause.trace}".rstrip())

    def process_ids(self) -> list[int]:
        """Of the running processes, by rank."""
        found = [] if self._closed else [member.process.pid for member in self.members]
        return [pid for pid in found if pid is not None]

    def close(self) -> None:
        """End all processes and wait until they are gone."""
        if not self._closed:
            self._closed = True
            for member in self.members:
                member.end()
            self._meeting.cleanup()


def check_inputs(inputs: Sequence[tuple[Any, ...]], dp: int) -> None:
    """Refuse anything but one input per data-parallel rank."""
    if len(inputs) != dp:
        raise DataError(f"data for {len(inputs)} data-parallel ranks, but there are {dp}")


def _passed(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


class Member:
    """One trainer process and this side of its pipe."""

    def __init__(self, rank: int, settings: LearnerSettings, hf_dir: Path, where: Place) -> None:
        context = get_context("spawn")
        self.rank = rank
        self.pipe: Connection
        self.pipe, theirs = context.Pipe()
        inputs = (theirs, settings, hf_dir, where)
        self.process = context.Process(target=worker.main, args=inputs, daemon=True)
        self.process.start()
        theirs.close()

    def send(self, message: bytes) -> None:
        """Hand over a packed message; a process that is gone shows when its answer is awaited."""
        with suppress(OSError):
            self.pipe.send_bytes(message)

    def receive(self) -> Any:
        """Its answer, a `Failure` when it failed or died."""
        try:
            return unpack(self.pipe.recv_bytes())
        except (EOFError, OSError):
            self.process.join(GRACE_S)
            return Failure(self.rank, None, f"died (exit code {self.process.exitcode})", "")

    def end(self) -> None:
        """Kill it; nothing of value is in its memory between calls."""
        self.process.kill()
        self.process.join()
        self.process.close()
        self.pipe.close()
