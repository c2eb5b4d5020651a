"""Versions, GPUs and disk space of this machine."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from spader_slime.doctor.facts import Disk, Machine, Reading

PACKAGES = {  # distribution -> module
    "slime": "slime",
    "sglang": "sglang",
    "megatron-core": "megatron",
    "torch": "torch",
    "transformers": "transformers",
    "ray": "ray",
}


def read_machine() -> Machine:
    """What this interpreter and `nvidia-smi` say."""
    versions = {name: _version(name, module) for name, module in PACKAGES.items()}
    return Machine(sys.version_info[:2], versions, _gpus())


def read_disk(save: str | None) -> Disk | None:
    """The disk of the nearest existing folder above `save`."""
    if not save:
        return None
    path = Path(save).expanduser().absolute()
    folder = next(parent for parent in (path, *path.parents) if parent.is_dir())
    return Disk(folder, shutil.disk_usage(folder).free, os.access(folder, os.W_OK))


def what_is_there(path: str) -> str:
    """One of the kinds that `Facts.paths` lists."""
    place = Path(path).expanduser()
    if not place.exists():
        return "missing"
    if not place.is_dir():
        return "file"
    if (place / "latest_checkpointed_iteration.txt").exists():
        return "megatron"
    if (place / "config.json").exists():
        return "hf"
    return "folder" if any(place.iterdir()) else "empty"


def _version(distribution: str, module: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        spec = importlib.util.find_spec(module)
        return "?" if spec and spec.origin else ""  # a folder that only has this name is none


def _gpus() -> Reading[tuple[str, ...]]:
    if shutil.which("nvidia-smi") is None:
        return Reading(missing="there is no nvidia-smi")
    try:
        listed = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Reading(missing=f"nvidia-smi failed: {error}")
    names = tuple(line for line in listed.stdout.splitlines() if line.startswith("GPU "))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = names[: len([word for word in visible.split(",") if word.strip()])]
    return Reading(names)
