"""TensorBoard events without torch: one event holds all numbers of a step."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter


class EventLog:
    """Event files under `folder/<phase>`, opened when they are first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers: dict[str, EventFileWriter] = {}

    def add(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        """Write the finite `values` of `step`."""
        scalars = [
            Summary.Value(tag=key, simple_value=value)
            for key, value in values.items()
            if math.isfinite(value)
        ]
        event = Event(wall_time=time.time(), step=step, summary=Summary(value=scalars))
        writer = self._writer(phase)
        writer.add_event(event)
        writer.flush()

    def rewind(self, phase: str, step: int) -> None:
        """Tell TensorBoard to forget what earlier files hold from `step` on."""
        if not list((self._folder / phase).glob("events.*")):
            return
        start = SessionLog(status=SessionLog.START)
        self._writer(phase).add_event(Event(wall_time=time.time(), step=step, session_log=start))

    def close(self) -> None:
        """Close all files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _writer(self, phase: str) -> EventFileWriter:
        if phase not in self._writers:
            folder = self._folder / phase
            folder.mkdir(parents=True, exist_ok=True)
            self._writers[phase] = EventFileWriter(str(folder))
        return self._writers[phase]
