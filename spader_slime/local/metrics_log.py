"""A run's numbers: one JSON line each time something is measured, and TensorBoard beside."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from spader_slime.errors import DataError
from spader_slime.files import cut_torn_line, write_whole
from spader_slime.local.events import EventLog

Line = dict[str, Any]

COLD_START, TRAIN, EVALUATION = "cold_start", "train", "eval"  # a run's phases


def read_metrics(path: Path) -> list[Line]:
    """All lines of a metrics file, in order; a torn last line (the run was killed) is left out.

    Raises:
        DataError: any other line that is not JSON.
    """
    if not path.exists():
        return []
    *rows, _torn = path.read_text(encoding="utf-8").split("\n")  # "" unless the end is torn
    found = []
    for number, row in enumerate(rows, start=1):
        try:
            found.append(json.loads(row))
        except ValueError as error:
            raise DataError(f"{path}:{number} is not JSON: {row[:80]!r}") from error
    return found


class MetricsLog:
    """Appends `{"iteration": n, "phase": name, ...}` lines to `path`, and events to `tensorboard`.

    Phases count their own iterations. In TensorBoard each phase is a run of its own.
    """

    def __init__(self, path: Path, tensorboard: Path) -> None:
        self.path = path
        self._events = EventLog(tensorboard)
        self._file: IO[str] | None = None

    def log(self, phase: str, iteration: int, values: Mapping[str, float]) -> None:
        """Add a line; it is on its way to the disk when this returns.

        Values that are not finite are written as null.
        """
        plain = {key: float(value) for key, value in values.items()}
        known = {key: v if math.isfinite(v) else None for key, v in plain.items()}
        file = self._open()
        file.write(json.dumps({"iteration": iteration, "phase": phase, **known}) + "\n")
        file.flush()
        self._events.add(phase, iteration, plain)

    def rewind(self, phase: str, iteration: int) -> None:
        """Drop the lines of `phase` from `iteration` on: they are about to be made again."""
        lines = self.read()
        kept = [r for r in lines if r["phase"] != phase or r["iteration"] < iteration]
        self._events.rewind(phase, iteration)
        if len(kept) < len(lines):
            self._replace(kept)

    def read(self) -> list[Line]:
        """All lines so far."""
        return read_metrics(self.path)

    def close(self) -> None:
        """Close the files. A later `log` opens them again."""
        self._events.close()
        self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> IO[str]:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            cut_torn_line(self.path)
            self._file = self.path.open("a", encoding="utf-8")
        return self._file

    def _replace(self, lines: list[Line]) -> None:
        self._close_file()
        write_whole(self.path, "".join(json.dumps(line) + "\n" for line in lines).encode())
