"""Titles and texts of passages on disk, by number: engines keep only vectors or words."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson

from spader_slime.errors import DataError
from spader_slime.retrieval.passages import Hit, Passage

_TEXTS, _ENDS = "passages.jsonl", "passages.ends"  # one line each; end offsets, 8 bytes each
_OFFSET = np.dtype("<u8")
_FIRST, _START_AND_END = struct.Struct("<Q"), struct.Struct("<QQ")


class StoreWriter:
    """Appends passages to what is in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._texts = (folder / _TEXTS).open("ab")
        self._ends = (folder / _ENDS).open("ab")
        self._path = folder
        self._end = self._texts.tell()

    def add(self, passage: Passage) -> None:
        self._end += self._texts.write(orjson.dumps([passage.title, passage.text]) + b"\n")
        self._ends.write(self._end.to_bytes(8, "little"))

    def keep(self, count: int) -> None:
        """Forget all but the first `count` passages (an interrupted build wrote more).

        Raises:
            DataError: there are fewer.
        """
        self.sync()
        ends = np.fromfile(self._path / _ENDS, _OFFSET)
        if len(ends) < count:
            raise DataError(f"{self._path} lost passages: build the index again with --overwrite")
        self._end = int(ends[count - 1]) if count else 0
        self._ends.truncate(8 * count)
        self._texts.truncate(self._end)

    def sync(self) -> None:
        for file in (self._texts, self._ends):
            file.flush()
            os.fsync(file.fileno())


class Store:
    """Reads what `StoreWriter` wrote; only what is asked for is in memory."""

    def __init__(self, folder: Path) -> None:
        self._ends = _mapped(folder / _ENDS)
        self._texts = (folder / _TEXTS).open("rb")  # read outside of Python's lock, unlike a map

    def __len__(self) -> int:
        return len(self._ends) // _OFFSET.itemsize

    def hits(self, found: Sequence[tuple[int, float]]) -> list[Hit]:
        """Passages by their numbers in the order of the corpus, with the scores found.

        One parse for all of them: half the time of one for each.
        """
        lines = b",".join([self._line(number) for number, _ in found])
        pairs = zip(orjson.loads(b"[%b]" % lines), found, strict=True)
        return [Hit(title, text, score) for (title, text), (_, score) in pairs]

    def _line(self, number: int) -> bytes:
        if number:
            start, end = _START_AND_END.unpack_from(self._ends, _OFFSET.itemsize * (number - 1))
        else:
            start, (end,) = 0, _FIRST.unpack_from(self._ends)
        return os.pread(self._texts.fileno(), end - start, start)


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
