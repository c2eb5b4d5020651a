"""Where a tensor's bytes lie inside a `.distcp` file.

Such a file is a row of `torch.save` archives, one per shard. Their directories are small, so a
tensor can be read with plain file reads into memory that the caller owns.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
from dataclasses import dataclass
from math import prod

import torch

from spader_slime.checkpoints.pickles import SavedTensor, load_pickle
from spader_slime.errors import CheckpointError

_LOCAL_HEADER = struct.Struct("<4s22xHH")  # magic, lengths of name and extra field
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


@dataclass(frozen=True)
class RawTensor:
    """A contiguous tensor in a file.

    Attributes:
        offset: of its first byte from the start of the file.
    """

    path: str
    offset: int
    dtype: torch.dtype
    elements: int


class _Window(io.RawIOBase):
    """A part of a file as a file."""

    def __init__(self, handle: int, start: int, length: int) -> None:
        self._handle, self._start, self._length, self._at = handle, start, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._length}[whence]
        if base + offset < 0:
            raise OSError("before the start")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        wanted = min(len(buffer), max(0, self._length - self._at))
        data = os.pread(self._handle, wanted, self._start + self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def locate(path: str, start: int, length: int) -> RawTensor:
    """Find the tensor in the archive at `[start, start + length)` of a file.

    Raises:
        CheckpointError: no complete archive of one contiguous tensor lies there.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        with zipfile.ZipFile(io.BufferedReader(_Window(handle, start, length))) as archive:
            return _find(archive, path, handle, start)
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, struct.error, IndexError) as error:
        raise CheckpointError(f"{path}: damaged or cut short at byte {start} ({error})") from error
    finally:
        os.close(handle)


def _find(archive: zipfile.ZipFile, path: str, handle: int, start: int) -> RawTensor:
    index = next(n for n in [*archive.namelist(), "/data.pkl"] if n.endswith("/data.pkl"))
    saved = load_pickle(archive.read(index), path)
    where = f"{path}, byte {start}"
    if not isinstance(saved, SavedTensor) or saved.dtype not in DTYPES:
        raise CheckpointError(f"{where}: not a tensor of floating-point numbers")
    if not _is_contiguous(saved.shape, saved.stride):
        raise CheckpointError(f"{where}: the tensor is not contiguous")
    record = archive.getinfo(index.removesuffix("data.pkl") + f"data/{saved.key}")
    skipped, size = saved.start * saved.dtype.itemsize, prod(saved.shape) * saved.dtype.itemsize
    if record.compress_type != zipfile.ZIP_STORED or record.file_size < skipped + size:
        raise CheckpointError(f"{where}: the tensor's data are incomplete")
    header = os.pread(handle, _LOCAL_HEADER.size, start + record.header_offset)
    magic, name, extra = _LOCAL_HEADER.unpack(header)
    if magic != b"PK\3\4":
        raise CheckpointError(f"{where}: damaged")
    offset = start + record.header_offset + _LOCAL_HEADER.size + name + extra + skipped
    return RawTensor(path, offset, saved.dtype, prod(saved.shape))


def _is_contiguous(shape: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    step = 1
    for length, given in zip(reversed(shape), reversed(stride), strict=True):
        if length > 1 and given != step:
            return False
        step *= length
    return True
