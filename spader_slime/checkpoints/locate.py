"""Which folder a user means by a checkpoint."""

from __future__ import annotations

from pathlib import Path

from spader_slime.errors import CheckpointError
from spader_slime.megatron.folders import NAME, TRACKER, all_checkpoints, latest

RELEASE = "release"  # Megatron's name for weights that no iteration belongs to


def find_checkpoint(folder: str | Path) -> Path:
    """The folder with `.metadata`: the one named, or the one that its tracker file names.

    Raises:
        CheckpointError: there is none, or the one named by the tracker is gone.
    """
    folder = Path(folder)
    if (folder / ".metadata").exists() or NAME.fullmatch(folder.name):
        return folder
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder")
    tracker = folder / TRACKER
    if not tracker.exists():
        newest = latest(folder)
        if newest is None:
            raise CheckpointError(f"{folder}: no checkpoint (neither .metadata nor {TRACKER})")
        return newest
    text = tracker.read_text(encoding="utf-8", errors="replace").strip()
    if text != RELEASE and not text.isdigit():
        raise CheckpointError(f"{tracker}: {text!r}, expected an iteration or {RELEASE!r}")
    name = text if text == RELEASE else f"iter_{int(text):07d}"
    if not (folder / name).is_dir():
        there = ", ".join(path.name for path in all_checkpoints(folder)) or "none"
        raise CheckpointError(f"{tracker} names {name}, which is not there (there: {there})")
    return folder / name
