"""Tensors of one torch_dist checkpoint, read a part at a time without Megatron."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from spader_slime.checkpoints.pickles import Record, load_pickle
from spader_slime.checkpoints.stored import Chunk, StoredTensor
from spader_slime.errors import CheckpointError
from spader_slime.megatron.folders import COMPLETE, is_complete

# Tensors of the optimizer and of the random state; they are of no use outside of training.
_NOT_THE_MODEL = ("optimizer.", "chained_", "rng_state", "rerun_state", "opt_param_scheduler")


class TorchDist:
    """A torch_dist checkpoint folder (`iter_NNNNNNN` or `release`).

    Args:
        folder: the folder with `.metadata` and `*.distcp`.

    Attributes:
        tensors: of the model, by the name they are stored under; optimizer state left out.

    Raises:
        CheckpointError: half-written or cut short, another format, or a hostile `.metadata`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        _check_format(folder)
        metadata = load_pickle((folder / ".metadata").read_bytes(), f"{folder}/.metadata")
        try:
            self.tensors = {t.name: t for t in _stored(folder, metadata)}
        except (AttributeError, TypeError, KeyError, ValueError) as error:
            raise CheckpointError(f"{folder}/.metadata: not understood ({error!r})") from error
        for tensor in self.tensors.values():
            _check_whole(tensor)

    def fingerprint(self) -> list[Any]:
        """Changes when a file of the checkpoint does."""
        files = sorted({c.path for t in self.tensors.values() for c in t.chunks})
        stats = [(Path(f).name, os.stat(f)) for f in [str(self.folder / ".metadata"), *files]]
        return [[name, s.st_size, s.st_mtime_ns] for name, s in stats]


def _check_format(folder: Path) -> None:
    if not (folder / ".metadata").is_file():
        raise CheckpointError(
            f"{folder}: no .metadata, so it is half-written or no torch_dist checkpoint"
        )
    if (folder / COMPLETE).exists() and not is_complete(folder):
        raise CheckpointError(f"{folder}: half-written or cut short, see {COMPLETE} in it")
    about = folder / "metadata.json"
    try:
        backend = json.loads(about.read_text())["sharded_backend"] if about.exists() else ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{about}: damaged ({error!r})") from error
    if backend not in ("", "torch_dist"):
        raise CheckpointError(f"{folder}: format {backend!r}, only 'torch_dist' can be read")


def _stored(folder: Path, metadata: Any) -> Iterator[StoredTensor]:
    places: dict[tuple[str, tuple[int, ...]], Record] = {}
    for index, place in metadata.storage_data.items():
        if getattr(index, "offset", None) is not None:
            places[index.fqn, tuple(index.offset)] = place
    for name, about in metadata.state_dict_metadata.items():
        if name.startswith(_NOT_THE_MODEL) or not hasattr(about, "chunks"):
            continue
        tensor = StoredTensor(name, tuple(about.size), about.properties.state[0])
        for part in about.chunks:
            place = places.get((name, tuple(part.offsets)))
            if place is None:
                raise CheckpointError(f"{folder}: {name}: a part was never written")
            tensor.chunks.append(_chunk(folder, part, place))
        yield tensor


def _chunk(folder: Path, part: Any, place: Any) -> Chunk:
    if os.path.basename(place.relative_path) != place.relative_path:
        raise CheckpointError(f"{folder}: refused, it refers to {place.relative_path!r}")
    if getattr(place, "transform_descriptors", None):
        raise CheckpointError(f"{folder}: compressed or encrypted files can't be read")
    path = str(folder / place.relative_path)
    return Chunk(tuple(part.offsets), tuple(part.sizes), path, place.offset, place.length)


def _check_whole(tensor: StoredTensor) -> None:
    """The chunks fill the tensor, and the files reach as far as they should."""
    for chunk in tensor.chunks:
        size = os.path.getsize(chunk.path) if os.path.exists(chunk.path) else -1
        if size < chunk.start + chunk.length:
            raise CheckpointError(
                f"{chunk.path}: cut short: {max(size, 0)} bytes, "
                f"{tensor.name} reaches to {chunk.start + chunk.length}"
            )
        ends = [o + s for o, s in zip(chunk.offsets, chunk.sizes, strict=True)]
        if any(end > limit for end, limit in zip(ends, tensor.shape, strict=True)):
            raise CheckpointError(f"{chunk.path}: a part of {tensor.name} lies outside of it")
    if sum(prod(chunk.sizes) for chunk in tensor.chunks) != prod(tensor.shape):
        raise CheckpointError(f"{tensor.name}: parts of it are missing, half-written checkpoint?")
