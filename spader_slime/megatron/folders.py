"""Where the checkpoints of a run lie, and whether one is whole; knows nothing of Megatron."""

from __future__ import annotations

import json
import re
from pathlib import Path

TRACKER = "latest_checkpointed_iteration.txt"
COMPLETE = "complete.json"
NAME = re.compile(r"iter_(\d{7,})")


def latest(folder: str | Path) -> Path | None:
    """The newest complete checkpoint of a run, or None."""
    found = [p for p in all_checkpoints(Path(folder)) if is_complete(p)]
    return found[-1] if found else None


def all_checkpoints(folder: Path) -> list[Path]:
    """Checkpoints of a run, the oldest first, complete or not."""
    if not folder.is_dir():
        return []
    named = [(int(m[1]), p) for p in folder.iterdir() if (m := NAME.fullmatch(p.name))]
    return [path for _, path in sorted(named)]


def is_complete(checkpoint: Path) -> bool:
    """Every file that was written is there with its size."""
    try:
        files = json.loads((checkpoint / COMPLETE).read_text())["files"]
        return all((checkpoint / name).stat().st_size == size for name, size in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
