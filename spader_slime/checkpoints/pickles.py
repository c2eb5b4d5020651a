"""Reading the pickles of a torch_dist checkpoint without running anything in them.

A pickle may name any function of any module and have it called. `SafeUnpickler` answers names
itself: a few are read as what they are, classes of the libraries that write checkpoints become
records without behaviour, and any other name refuses the file. Nothing is ever imported.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from spader_slime.errors import CheckpointError


class Record:
    """Stands for an object of another library: keeps its state, can do nothing."""

    def __new__(cls, *_: Any, **__: Any) -> Record:
        return object.__new__(cls)

    def __init__(self, *values: Any, **named: Any) -> None:
        self.values = values

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
            state = {**(state[0] or {}), **state[1]}
        self.__dict__.update(state if isinstance(state, dict) else {"state": state})

    def __hash__(self) -> int:
        return id(self)

    def append(self, value: Any) -> None:
        """Pickles fill subclasses of list this way; the items are not needed."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Pickles fill subclasses of dict this way; the items are not needed."""


@dataclass(frozen=True)
class SavedTensor:
    """A tensor in a `torch.save` archive: which storage, and where in it (in elements)."""

    dtype: torch.dtype
    key: str
    start: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


_STORAGES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
# Whose classes may occur; they become records.
_WRITERS: tuple[str, ...] = (
    "megatron",
    "slime",
    "transformer_engine",
    "torch.distributed",
    "torch.serialization",
)
_WRITERS += ("numpy", "signal", "pathlib", "argparse", "types", "datetime", "collections")


class _Call:
    """A function that a pickle may call, and can't change."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *values: Any) -> Any:
        return self._function(*values)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("it changes a function")


def _rebuild_tensor(storage: Any, start: int, shape: Any, stride: Any, *_: Any) -> SavedTensor:
    dtype, key = storage
    return SavedTensor(dtype, str(key), int(start), tuple(shape), tuple(stride))


def _size(*values: Any) -> tuple[int, ...]:
    return tuple(values[0]) if values else ()


_KNOWN = {
    ("collections", "OrderedDict"): _Call(OrderedDict),
    ("collections", "defaultdict"): _Call(lambda *_: {}),
    ("builtins", "set"): _Call(set),
    ("__builtin__", "set"): _Call(set),
    ("_codecs", "encode"): _Call(lambda *_: b""),
    ("torch", "Size"): _Call(_size),
    ("torch", "device"): _Call(_size),
    ("torch._utils", "_rebuild_tensor_v2"): _Call(_rebuild_tensor),
    ("torch._utils", "_rebuild_parameter"): _Call(lambda data, *_: data),
}


class SafeUnpickler(pickle.Unpickler):
    """An unpickler that calls nothing but what this file lists."""

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for a name of the pickle."""
        if (module, name) in _KNOWN:
            return _KNOWN[module, name]
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        if module == "torch" and isinstance(dtype := getattr(torch, name, None), torch.dtype):
            return dtype
        if any(module == writer or module.startswith(f"{writer}.") for writer in _WRITERS):
            return type(name.rpartition(".")[2], (Record,), {})
        raise pickle.UnpicklingError(f"it names {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        """A storage of a `torch.save` archive: dtype and key."""
        kind, dtype, key = pid[:3]
        if kind != "storage" or not isinstance(dtype, torch.dtype):
            raise pickle.UnpicklingError("it refers to something that is no tensor")
        return dtype, key


def load_pickle(data: bytes, where: str) -> Any:
    """The content of a pickle, other libraries' objects as records.

    Raises:
        CheckpointError: it is damaged, or names something that a checkpoint has no need of.
    """
    try:
        return SafeUnpickler(io.BytesIO(data)).load()
    except Exception as error:  # a pickle can make any operation fail
        raise CheckpointError(f"{where}: refused, not a checkpoint's pickle ({error})") from error


def load_archive(path: Path) -> Any:
    """What `torch.save` wrote to a file, its tensors as `SavedTensor`.

    Raises:
        CheckpointError: as `load_pickle`, or no such archive.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if n.endswith("/data.pkl")]
            data = archive.read(names[0])
    except (OSError, zipfile.BadZipFile, IndexError, ValueError) as error:
        raise CheckpointError(f"{path}: damaged ({error})") from error
    return load_pickle(data, str(path))
