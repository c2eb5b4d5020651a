"""What every row of the key-value cache holds, and which row a new sequence gets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_WORTH_COPYING = 8  # tokens
_NEVER = np.iinfo(np.int64).max


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
    """Token ids of the cached positions of all rows. A finished sequence stays until replaced.

    Attributes:
        lengths: cached positions of each row.
    """

    def __init__(self, rows: int, width: int) -> None:
        self.lengths = np.zeros(rows, dtype=np.int64)
        self._tokens = np.full((rows, width), -1, dtype=np.int64)
        self._busy = np.zeros(rows, dtype=bool)
        self._used = np.zeros(rows, dtype=np.int64)
        self._clock = 0

    @property
    def cached(self) -> int:
        """Positions held by all rows together."""
        return int(self.lengths.sum())

    @property
    def full(self) -> bool:
        """Whether every row is being written to."""
        return bool(self._busy.all())

    def take(self, ids: NDArray[np.int64], limit: int) -> Place:
        """A row for a sequence that starts with `ids`. Some row must be free.

        A free row whose whole content is a prefix of `ids` is continued: the next turn of a
        trajectory. Otherwise the row unused for longest is overwritten, after a copy of the longest
        common prefix that any row holds.

        Args:
            limit: reuse no more than so many tokens.
        """
        common = self._common(ids)
        continued = np.where(~self._busy & (common == self.lengths), common, 0)
        row = int(continued.argmax())
        if continued[row]:
            return self._occupy(Place(row, min(int(common[row]), limit)))
        best, row = int(common.argmax()), int(np.where(self._busy, _NEVER, self._used).argmin())
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
        self._tokens[place.row, place.reuse :] = -1
        self.lengths[place.row] = place.reuse
        return place

    def write(self, row: int, ids: NDArray[np.int64]) -> None:
        """Keys and values of `ids` now follow what `row` held."""
        start = int(self.lengths[row])
        self._tokens[row, start : start + len(ids)] = ids
        self.lengths[row] = start + len(ids)

    def write_each(self, rows: NDArray[np.int64], ids: NDArray[np.int64]) -> None:
        """Keys and values of one of `ids` now follow what each of `rows` held."""
        self._tokens[rows, self.lengths[rows]] = ids
        self.lengths[rows] += 1

    def release(self, row: int) -> None:
        """The sequence is complete; its content may be continued or overwritten."""
        self._clock += 1
        self._busy[row], self._used[row] = False, self._clock

    def flush(self) -> None:
        """Forget the content of all rows; those in use have to be filled anew."""
        self._tokens[:] = -1
        self.lengths[:] = 0
        self._used[~self._busy] = 0
