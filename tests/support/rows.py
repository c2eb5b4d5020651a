"""Rows of slime files, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def row(question: str, *answers: str, **metadata: Any) -> dict[str, Any]:
    """A row whose answers have one name each."""
    return {"prompt": question, "label": [[name] for name in answers], "metadata": metadata}


def write(path: Path, rows: list[Any]) -> Path:
    """Write jsonl; the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path
