"""Files that survive a kill: written whole or not at all, and logs without a torn last line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO


def write_whole(path: Path, content: bytes) -> Path:
    """Write `content` beside, then rename: whoever reads `path` sees all of it, or what was there.

    Returns:
        `path`.
    """
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    part.replace(path)
    return path


def cut_torn_line(path: Path) -> None:
    """Remove what a killed writer left without its newline; a missing file is fine."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        end = size = file.seek(0, os.SEEK_END)
        while end and not _ends_line(file, end):
            end -= 1
        if end < size:
            file.truncate(end)


def _ends_line(file: IO[bytes], end: int) -> bool:
    file.seek(end - 1)
    return file.read(1) == b"\n"
