"""Writing the files of a torch_dist checkpoint: `.distcp` archives and `.metadata`."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

from spader_slime.checkpoints.building import file_of
from spader_slime.checkpoints.casting import dtype_name

_ABOUT = {
    "sharded_backend": "torch_dist",
    "sharded_backend_version": 1,
    "common_backend": "torch",
    "common_backend_version": 1,
}


@dataclass(frozen=True)
class Piece:
    """One tensor of the model as a box of a stored tensor.

    Attributes:
        index: of the box in the leading axes, which have lengths `axes`.
        shape: of the tensor, without these axes.
    """

    name: str
    index: tuple[int, ...]
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        """Size of its data."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def offsets(self) -> tuple[int, ...]:
        """Of the box in the stored tensor."""
        return (*self.index, *(0 for _ in self.shape))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the box."""
        return (*(1 for _ in self.index), *self.shape)

    def __str__(self) -> str:
        index = "".join(f"[{at}]" for at in self.index)
        return f"{self.name}{index} {'x'.join(map(str, self.shape))} {dtype_name(self.dtype)}"


@dataclass(frozen=True)
class Entry:
    """An archive in a file; `offsets` is None for an object that is no tensor."""

    file: str
    name: str
    offsets: tuple[int, ...] | None
    start: int
    length: int


class _Out(io.RawIOBase):
    """A descriptor that torch.save writes to, and that remembers why it could not."""

    def __init__(self, handle: int) -> None:
        self._handle, self.at = handle, 0
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: memoryview) -> int:  # type: ignore[override]
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest:
                rest = rest[os.write(self._handle, rest) :]
        except OSError as error:
            self.error = error
            raise
        self.at += size
        return size


def write_file(
    path: Path, pieces: Sequence[Piece], objects: Sequence[str], tensor: Callable[[Piece], Tensor]
) -> None:
    """Write one `.distcp` file, and beside it what lies where in it.

    Args:
        objects: names of empty objects, which Megatron asks for beside the tensors.
        tensor: the data of a piece, in its shape and dtype.
    """
    entries: list[Entry] = []
    with file_of(path) as handle:
        out = _Out(handle)

        def add(name: str, offsets: tuple[int, ...] | None, value: object) -> None:
            start = out.at
            try:
                torch.save(value, out)  # type: ignore[arg-type]
            except RuntimeError:
                if out.error is not None:
                    raise out.error from None
                raise
            entries.append(Entry(path.name, name, offsets, start, out.at - start))

        for name in objects:
            add(name, None, [None])
        for piece in pieces:
            add(piece.name, piece.offsets, tensor(piece).reshape(piece.sizes))
        lines = [[e.file, e.name, e.offsets, e.start, e.length] for e in entries]
        _entries(path).write_text(json.dumps(lines), encoding="utf-8")


def _entries(path: Path) -> Path:
    return path.with_name(f".{path.name}.json")


def read_entries(path: Path) -> list[Entry]:
    """What lies where in a file that `write_file` wrote."""
    lines = json.loads(_entries(path).read_text(encoding="utf-8"))
    return [Entry(f, n, tuple(o) if o is not None else None, s, e) for f, n, o, s, e in lines]


def write_metadata(folder: Path, pieces: Sequence[Piece], entries: Sequence[Entry]) -> None:
    """Write `.metadata` and `metadata.json`, and drop the notes of `write_file`."""
    tensors: dict[str, BytesStorageMetadata | TensorStorageMetadata] = {}
    for piece in pieces:
        about = tensors.get(piece.name)
        if about is None:
            size = torch.Size((*piece.axes, *piece.shape))
            about = TensorStorageMetadata(TensorProperties(dtype=piece.dtype), size, [])
            tensors[piece.name] = about
        assert isinstance(about, TensorStorageMetadata)
        about.chunks.append(
            ChunkStorageMetadata(torch.Size(piece.offsets), torch.Size(piece.sizes))
        )
    places = {}
    for entry in entries:
        places[MetadataIndex(entry.name, entry.offsets)] = _StorageInfo(
            entry.file, entry.start, entry.length
        )
        tensors.setdefault(entry.name, BytesStorageMetadata())
    metadata = Metadata(tensors, storage_data=places, storage_meta=StorageMeta())
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    (folder / "metadata.json").write_text(json.dumps(_ABOUT), encoding="utf-8")
    for note in folder.glob(".*.distcp.json"):
        note.unlink()
