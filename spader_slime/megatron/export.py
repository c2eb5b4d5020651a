"""Hugging Face folders: written whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

SIDE_FILES = (
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
)


def write_hf(folder: str | Path, origin: str | Path, tensors: Mapping[str, Tensor]) -> Path:
    """Write weights beside the origin's config, generation config, tokenizer and chat template.

    The folder appears under its name only when complete; one that was there is replaced.

    Args:
        folder: where to write.
        origin: the Hugging Face folder that training started from.
        tensors: by Hugging Face name, all of one dtype.
    """
    target, origin = Path(folder), Path(origin)
    beside = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    dtype = str(next(iter(tensors.values())).dtype).removeprefix("torch.")
    _write_config(origin / "config.json", beside / "config.json", dtype)
    for name in SIDE_FILES:
        if (origin / name).exists():
            shutil.copyfile(origin / name, beside / name)
    save_file(dict(tensors), beside / "model.safetensors", metadata={"format": "pt"})
    sync_files(beside)
    swap_in(beside, target)
    return target


def _write_config(source: Path, target: Path, dtype: str) -> None:
    values = json.loads(source.read_text())
    values.pop("torch_dtype", None)
    values["dtype"] = dtype
    target.write_text(json.dumps(values, indent=2) + "\n")


def sync_files(folder: Path) -> None:
    """Make sure that everything in the folder has reached the disk."""
    for path in [*sorted(p for p in folder.rglob("*") if p.is_file()), folder]:
        sync(path)


def sync(path: Path) -> None:
    """fsync a file or a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def swap_in(beside: Path, target: Path) -> None:
    """Put a finished folder under its final name, an older one of that name out of the way."""
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        os.rename(target, old)
    os.rename(beside, target)
    sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)
