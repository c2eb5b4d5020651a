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
    write_side_files(origin, beside, dtype)
    save_file(dict(tensors), beside / "model.safetensors", metadata={"format": "pt"})
    sync_files(beside)
    swap_in(beside, target)
    return target


def write_side_files(origin: Path, folder: Path, dtype: str) -> None:
    """Copy config, generation config, tokenizer and chat template; the config names `dtype`."""
    values = json.loads((origin / "config.json").read_text(encoding="utf-8"))
    key = "torch_dtype" if "torch_dtype" in values else "dtype"  # as transformers before 4.56 wants
    values[key] = dtype
    values.pop("quantization_config", None)  # the weights are not quantized, whatever the origin's
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    (folder / "config.json").write_text(text, encoding="utf-8")
    for name in SIDE_FILES:
        if (origin / name).exists():
            shutil.copyfile(origin / name, folder / name)


def sync_files(folder: Path) -> None:
    """Make sure that everything in the folder has reached the disk."""
    for path in [*sorted(folder.rglob("*")), folder]:
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
