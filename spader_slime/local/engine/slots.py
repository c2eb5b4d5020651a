"""What every row of the key-value cache holds, and which row a new sequence gets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_WORTH_COPYING = 8  # tokens


@dataclass(frozen=True)
class Place:
    """A row for a sequence.

    Attributes:
        row: to be written to.
        reuse: its first so many tokens are cached there already, once `source` was copied.
        source: row to copy them from, or None.
    """

    row: int
    reuse: int
    source: int | None = None


class Slots:
    """Token ids of the cached positions of all rows. A finished sequence stays until replaced."""

    def __init__(self, rows: int, width: int) -> None:
        self._tokens = np.full((rows, width), -1, dtype=np.int64)
        self._lengths = np.zeros(rows, dtype=np.int64)
        self._busy = np.zeros(rows, dtype=bool)
        self._used = np.zeros(rows, dtype=np.int64)
        self._clock = 0

    @property
    def busy(self) -> int:
        """Rows that are being written to."""
        return int(self._busy.sum())

    def take(self, ids: NDArray[np.int64], limit: int) -> Place | None:
        """A free row for a sequence that starts with `ids`; None when all are busy.

        A row whose whole content is a prefix of `ids` is continued: the next turn of a trajectory.
        Otherwise the row unused for longest is overwritten, after a copy of the longest common
        prefix that any row holds.

        Args:
            limit: reuse no more than so many tokens.
        """
        if self._busy.all():
            return None
        common = self._common(ids)
        continued = np.where(~self._busy & (common == self._lengths), common, 0)
        row = int(continued.argmax())
        if continued[row]:
            return self._occupy(Place(row, min(int(common[row]), limit)))
        best = int(common.argmax())
        row = int(np.where(self._busy, np.iinfo(np.int64).max, self._used).argmin())
        reuse = min(int(common[best]), limit)
        if best == row:
            return self._occupy(Place(row, reuse))
        if reuse < _WORTH_COPYING:
            return self._occupy(Place(row, 0))
        self._tokens[row, :reuse] = self._tokens[best, :reuse]
        return self._occupy(Place(row, reuse, best))

    def _common(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Length of the common prefix with every row."""
        same = self._tokens[:, : len(ids)] == ids
        return np.where(same.all(1), len(ids), same.argmin(1))

    def _occupy(self, place: Place) -> Place:
        self._busy[place.row] = True
        self._set_length(place.row, place.reuse)
        return place

    def write(self, row: int, ids: NDArray[np.int64]) -> None:
        """Note that keys and values of `ids` now follow what the row held."""
        start = int(self._lengths[row])
        self._tokens[row, start : start + len(ids)] = ids
        self._lengths[row] = start + len(ids)

    def release(self, row: int) -> None:
        """The sequence is complete; its content may be continued or overwritten."""
        self._clock += 1
        self._busy[row], self._used[row] = False, self._clock

    def flush(self) -> None:
        """Forget the content of all rows."""
        self._tokens[:] = -1
        self._lengths[:] = 0

    def _set_length(self, row: int, length: int) -> None:
        self._tokens[row, length:] = -1
        self._lengths[row] = length
