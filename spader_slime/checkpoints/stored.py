"""A tensor of a torch_dist checkpoint: boxes in files, read a part at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod

import torch
from torch import Tensor

from spader_slime.checkpoints.entries import RawTensor, locate
from spader_slime.errors import CheckpointError

BLOCK = 64 << 20  # bytes of a part that is read on its way to another place in memory


@dataclass
class Chunk:
    """A box of a tensor and the archive that holds it."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    path: str
    start: int
    length: int

    @cached_property
    def raw(self) -> RawTensor:
        """Its bytes."""
        found = locate(self.path, self.start, self.length)
        if found.elements != prod(self.sizes):
            raise CheckpointError(f"{self.path}: byte {self.start}: a tensor of another size")
        return found


@dataclass
class StoredTensor:
    """A tensor of the checkpoint, in chunks."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    chunks: list[Chunk] = field(default_factory=list)
    _index: dict[tuple[int, ...], list[Chunk]] | None = None

    def read(self, index: tuple[int, ...] = (), rows: slice | None = None) -> Tensor:
        """`tensor[index]`, or these rows of it, in memory of its own."""
        kept = len(index)
        first, end, _ = (rows or slice(None)).indices(self.shape[kept])
        result = torch.empty((end - first, *self.shape[kept + 1 :]), dtype=self.dtype)
        for part in self._parts(index, first, end):
            _read_part(part, result[part.at : part.at + part.rows])
        return result

    def extents(self, index: tuple[int, ...], rows: slice) -> list[tuple[str, int, int]] | None:
        """(file, first byte, bytes) of `tensor[index][rows]`, one after the other; None if some of
        these rows lie in pieces."""
        parts = sorted(self._parts(index, rows.start, rows.stop), key=lambda part: part.at)
        if any(part.others != self.shape[len(index) + 1 :] for part in parts):
            return None
        width = prod(self.shape[len(index) + 1 :]) * self.dtype.itemsize
        return [(part.chunk.path, part.position, part.rows * width) for part in parts]

    def _parts(self, index: tuple[int, ...], first: int, end: int) -> Iterator[_Part]:
        """What the chunks hold of rows [first, end) of `tensor[index]`."""
        for chunk in self._by_index(len(index))[index]:
            places = [at - start for at, start in zip(index, chunk.offsets, strict=False)]
            part = _part(chunk, places, first, end)
            if part.rows > 0:
                if chunk.raw.dtype != self.dtype:
                    raise CheckpointError(f"{chunk.path}: {chunk.raw.dtype}, not {self.dtype}")
                yield part

    def _by_index(self, kept: int) -> dict[tuple[int, ...], list[Chunk]]:
        """Chunks by the values of the first `kept` axes that they cover."""
        if self._index is None:
            found: dict[tuple[int, ...], list[Chunk]] = {}
            for chunk in self.chunks:
                spans = zip(chunk.offsets[:kept], chunk.sizes[:kept], strict=True)
                for at in product(*(range(start, start + size) for start, size in spans)):
                    found.setdefault(at, []).append(chunk)
            self._index = found
        return self._index


@dataclass(frozen=True)
class _Part:
    """Rows of `chunk[places]`, a box of rows that are wanted.

    Attributes:
        position: of the first row's first byte in the file.
        at: the first row's number among the wanted ones.
        offsets, others: of the box, in the axes after the rows.
    """

    chunk: Chunk
    position: int
    at: int
    rows: int
    offsets: tuple[int, ...]
    others: tuple[int, ...]


def _part(chunk: Chunk, places: list[int], first: int, end: int) -> _Part:
    """What a chunk holds of rows [first, end); `rows` is not positive where it holds none."""
    kept = len(places)
    (own, *offsets), (count, *others) = chunk.offsets[kept:], chunk.sizes[kept:]
    start, stop = max(own, first), min(own + count, end)
    before = 0
    for at, size in zip(places, chunk.sizes[:kept], strict=True):
        before = before * size + at
    row = prod(others) * chunk.raw.dtype.itemsize
    position = chunk.raw.offset + (before * count + start - own) * row
    return _Part(chunk, position, start - first, stop - start, tuple(offsets), tuple(others))


def _read_part(part: _Part, result: Tensor) -> None:
    """Fill the part's box of these rows, a block of rows at a time."""
    box = (slice(o, o + s) for o, s in zip(part.offsets, part.others, strict=True))
    where = (slice(None), *box)
    target, position = result[where], part.position
    with open(part.chunk.path, "rb", buffering=0) as file:
        if target.is_contiguous():
            read_into(file.fileno(), target, position)
            return
        for rows in target.split(max(1, BLOCK // (prod(part.others) * result.itemsize))):
            block = torch.empty(rows.shape, dtype=rows.dtype)
            position += read_into(file.fileno(), block, position)
            rows.copy_(block)


def as_bytes(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor."""
    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy().data)


def read_into(handle: int, tensor: Tensor, start: int) -> int:
    """Fill a contiguous tensor from a file; how many bytes that were."""
    rest, at = as_bytes(tensor), start
    while rest:
        count = os.preadv(handle, [rest], at)
        if count <= 0:
            raise CheckpointError("a checkpoint file became shorter while it was read")
        rest, at = rest[count:], at + count
    return at - start
