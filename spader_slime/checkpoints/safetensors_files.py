"""Hugging Face weights as files: which shard holds what, header by header."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spader_slime.checkpoints.building import write_all
from spader_slime.checkpoints.casting import cast
from spader_slime.checkpoints.stored import BLOCK, as_bytes, read_into
from spader_slime.errors import CheckpointError

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_LONGEST_HEADER = 100 << 20  # bytes, the format's own limit
_CODES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}


@dataclass(frozen=True)
class Slot:
    """A tensor's place in a file, `offset` bytes from its start."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    offset: int = 0

    @property
    def nbytes(self) -> int:
        """Size of its data."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def row_bytes(self) -> int:
        """Size of one row."""
        return prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def block_rows(self) -> int:
        """Rows that are written at once."""
        return max(1, BLOCK // max(1, self.row_bytes))


@dataclass(frozen=True)
class Shard:
    """A safetensors file that is yet to be written."""

    file: str
    header: bytes
    slots: Mapping[str, Slot]

    @property
    def nbytes(self) -> int:
        """Size of the whole file."""
        return len(self.header) + sum(slot.nbytes for slot in self.slots.values())


def plan_shards(groups: Sequence[Sequence[Slot]], limit: int) -> list[Shard]:
    """Files of at most `limit` bytes of data, in order; a group stays together.

    A group that is larger gets a file of its own.
    """
    packed: list[list[Slot]] = [[]]
    filled = 0
    for group in groups:
        size = sum(slot.nbytes for slot in group)
        if packed[-1] and filled + size > limit:
            packed.append([])
            filled = 0
        packed[-1] += group
        filled += size
    if len(packed) == 1:
        return [_shard(SINGLE, packed[0])]
    total = len(packed)
    names = [f"model-{n:05d}-of-{total:05d}.safetensors" for n in range(1, total + 1)]
    return [_shard(name, slots) for name, slots in zip(names, packed, strict=True)]


def _shard(file: str, slots: Sequence[Slot]) -> Shard:
    ordered = sorted(slots, key=lambda slot: -slot.dtype.itemsize)  # keeps all of them aligned
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for slot in ordered:
        table[slot.name] = {
            "dtype": _CODES[slot.dtype],
            "shape": list(slot.shape),
            "data_offsets": [at, at + slot.nbytes],
        }
        at += slot.nbytes
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    header = struct.pack("<Q", len(text)) + text
    placed = {}
    for slot in ordered:
        offset = len(header) + table[slot.name]["data_offsets"][0]
        placed[slot.name] = Slot(slot.name, slot.shape, slot.dtype, offset)
    return Shard(file, header, placed)


def index_text(shards: Sequence[Shard]) -> str:
    """`model.safetensors.index.json` for these files."""
    slots = [(slot, shard.file) for shard in shards for slot in shard.slots.values()]
    total = sum(slot.nbytes for slot, _ in slots)
    names = {slot.name: file for slot, file in sorted(slots, key=lambda pair: pair[0].name)}
    return json.dumps({"metadata": {"total_size": total}, "weight_map": names}, indent=2) + "\n"


def write_tensor(
    handle: int, slot: Slot, tensor: Tensor, wrote: Callable[[int], object], row: int = 0
) -> None:
    """Write a tensor to its place from row `row` on, a block at a time, in the place's dtype.

    Raises:
        CheckpointError: values that the dtype can't hold.
    """
    assert tuple(tensor.shape[1:]) == slot.shape[1:] and row + len(tensor) <= slot.shape[0]
    at = slot.offset + row * slot.row_bytes
    for block in tensor.split(slot.block_rows):
        data = cast(block, slot.dtype, slot.name).contiguous()
        write_all(handle, as_bytes(data), at)
        at += data.nbytes
        wrote(data.nbytes)


class HfWeights:
    """Tensors of a Hugging Face folder, read one by one into memory of their own.

    Raises:
        CheckpointError: no safetensors files, or damaged ones.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.slots: dict[str, tuple[Path, Slot]] = {}
        for file in self._files():
            for slot in read_header(file):
                self.slots[slot.name] = (file, slot)

    def _files(self) -> list[Path]:
        index = self.folder / INDEX
        if not index.exists():
            return [self.folder / SINGLE]
        try:
            names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{index}: damaged ({error!r})") from error
        if any(os.path.basename(name) != name for name in names):
            raise CheckpointError(f"{index}: refused, it refers to files of other folders")
        return [self.folder / name for name in sorted(names)]

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.slots:
            raise CheckpointError(f"{self.folder}: no tensor named {name!r}")
        _, slot = self.slots[name]
        tensor = torch.empty(slot.shape, dtype=slot.dtype)
        self.fill(name, tensor)
        return tensor

    def fill(self, name: str, target: Tensor) -> None:
        """Read a tensor into memory of its shape, which may have another dtype.

        Raises:
            CheckpointError: values that the dtype can't hold.
        """
        file, slot = self.slots[name]
        with open(file, "rb", buffering=0) as handle:
            if target.dtype == slot.dtype:
                read_into(handle.fileno(), target, slot.offset)
                return
            at = slot.offset
            for block in target.split(slot.block_rows):
                stored = torch.empty(block.shape, dtype=slot.dtype)
                at += read_into(handle.fileno(), stored, at)
                block.copy_(cast(stored, target.dtype, name))


def read_header(file: Path) -> list[Slot]:
    """What a safetensors file holds.

    Raises:
        CheckpointError: it is missing, damaged or cut short.
    """
    try:
        with open(file, "rb") as handle:
            (length,) = struct.unpack("<Q", handle.read(8))
            if length > _LONGEST_HEADER:
                raise ValueError("header too long")
            table = json.loads(handle.read(length))
        table.pop("__metadata__", None)
        slots = [_slot(name, entry, 8 + length) for name, entry in table.items()]
        if any(slot.offset + slot.nbytes > file.stat().st_size for slot in slots):
            raise ValueError("cut short")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise CheckpointError(f"{file}: no readable safetensors file ({error})") from error
    return slots


def _slot(name: str, entry: dict[str, Any], base: int) -> Slot:
    start, end = entry["data_offsets"]
    slot = Slot(name, tuple(entry["shape"]), _DTYPES[entry["dtype"]], base + start)
    if end - start != slot.nbytes or start < 0:
        raise ValueError(f"{name} has another size than its shape")
    return slot
