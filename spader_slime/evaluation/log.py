"""The folder of an evaluation: what was asked, how, and every trajectory as it ended.

    settings.json   how questions were asked
    answers.jsonl   one line per trajectory, appended as soon as it has ended

Everything else in the folder is made from these two.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import orjson

from spader_slime.errors import ConfigError, DataError
from spader_slime.evaluation.settings import check_same
from spader_slime.files import cut_torn_line, write_whole

Key = tuple[str, int, int]  # data set, number of the question, sample


class AnswerLog:
    """Reads and extends `answers.jsonl`; as a context manager it holds the folder's lock.

    A trajectory that was lost to engine or search service is logged too; asked again, its later
    line counts.

    Raises:
        ConfigError: on entering, when another process is writing to the folder.
        DataError: a line before the last one is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path, self.settings_path = folder / "answers.jsonl", folder / "settings.json"
        self._lock: IO[str] | None = None
        self._out: IO[bytes] | None = None

    def __enter__(self) -> AnswerLog:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self.folder / ".lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            allowed = "a folder that no other evaluation is writing to"
            raise ConfigError("--out", str(self.folder), allowed) from error
        cut_torn_line(self.path)
        self._out = self.path.open("ab")
        return self

    def __exit__(self, *error: object) -> None:
        for file in (self._out, self._lock):
            if file is not None:
                file.close()
        self._out = self._lock = None

    def settle(self, identity: dict[str, Any]) -> None:
        """Keep the settings, or hold them to those the folder was begun with.

        Raises:
            ConfigError: a setting differs; says which.
        """
        before = self.settings()
        if before:
            check_same(before, identity, self.settings_path)
            identity = {**identity, "data": {**before["data"], **identity["data"]}}
        write_whole(self.settings_path, orjson.dumps(identity, option=orjson.OPT_INDENT_2) + b"\n")

    def settings(self) -> dict[str, Any]:
        """What `settle` kept; {} in a new folder.

        Raises:
            DataError: the file is damaged.
        """
        if not self.settings_path.exists():
            return {}
        try:
            found: dict[str, Any] = orjson.loads(self.settings_path.read_bytes())
        except orjson.JSONDecodeError as error:
            raise DataError(f"{self.settings_path} is damaged: {error}") from error
        return found

    def add(self, line: Mapping[str, Any]) -> None:
        """Append one trajectory; it outlives a kill of this process."""
        assert self._out is not None
        self._out.write(orjson.dumps(line) + b"\n")
        self._out.flush()

    def read(self) -> dict[Key, dict[str, Any]]:
        """The last line of every trajectory, by data set, question and sample, in this order."""
        found = {key_of(line): line for line in self._lines()}
        return {key: found[key] for key in sorted(found)}

    def _lines(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    return  # torn by a kill
                try:
                    yield orjson.loads(line)
                except orjson.JSONDecodeError as error:
                    raise DataError(f"{self.path}:{number} is damaged: {error}") from error


def key_of(line: Mapping[str, Any]) -> Key:
    """Which trajectory a line is about."""
    return line["dataset"], line["number"], line["sample"]


def lost(line: Mapping[str, Any]) -> bool:
    """Whether it failed for reasons that are not the policy's, and has to be asked again."""
    return line["end"] in ("infrastructure", "aborted")
