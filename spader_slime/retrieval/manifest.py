"""The file that says an index is complete, and what it is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from spader_slime.errors import DataError

FORMAT = 2
FILE = "manifest.json"


def write_json(path: Path, value: Any) -> None:
    """Replace a file in one step: after a crash the old or the new one is there."""
    scratch = path.with_name(path.name + ".new")
    with scratch.open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def write_manifest(folder: Path, backend: str, passages: int, facts: dict[str, Any]) -> None:
    """Declare the index in `folder` complete. Comes last."""
    known = {"format": FORMAT, "backend": backend, "passages": passages}
    write_json(folder / FILE, {**known, **facts})


def read_manifest(folder: Path) -> dict[str, Any]:
    """What `write_manifest` wrote.

    Raises:
        DataError: no complete index of this format in `folder`.
    """
    path = folder / FILE
    if not path.is_file():
        raise DataError(f"{folder} holds no complete index: build it first")
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is damaged ({error}): build the index again") from error
    if manifest.get("format") != FORMAT:
        raise DataError(f"{folder} was built by another version: build it again")
    return {"backend": "tantivy", **manifest}
