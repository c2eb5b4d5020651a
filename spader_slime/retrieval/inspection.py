"""An index, described and tried on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spader_slime.retrieval.index import TantivyBackend
from spader_slime.retrieval.manifest import read_manifest
from spader_slime.retrieval.passages import Hit

_SNIPPET = 160  # characters of a text


def describe(folder: Path) -> dict[str, Any]:
    """What there is to say about a complete index, by name.

    Raises:
        DataError: there is none in `folder`.
    """
    manifest = read_manifest(folder)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    files = manifest.get("corpus", {}).get("files", [])
    return {
        "backend": manifest["backend"],
        "passages": f"{manifest['passages']:,}",
        "on disk": f"{size / 1e6:,.1f} MB",
        **({"left out": manifest["bad"]} if manifest.get("bad") else {}),
        **({"priors": "yes"} if manifest.get("weighted") else {}),
        **_engine(folder, manifest),
        "corpus": ", ".join(path for path, *_ in files) or "made by a program",
    }


def _engine(folder: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    if manifest["backend"] == "tantivy":
        return {"ranking": "BM25, k1 1.2, b 0.75", "segments": TantivyBackend(folder).segments}
    if manifest["backend"] == "lucene":
        return {"ranking": f"BM25, k1 {manifest['k1']}, b {manifest['b']}"}
    settings = manifest["settings"]
    return {"encoder": settings["encoder"]["model"], "vectors": settings["factory"]}


def show(hits: Iterable[Hit], as_json: bool) -> Iterator[str]:
    """Lines that show what was found."""
    for rank, hit in enumerate(hits, 1):
        if as_json:
            yield json.dumps({"rank": rank, **asdict(hit)}, ensure_ascii=False)
        else:
            text = " ".join(hit.text.split())
            cut = text if len(text) <= _SNIPPET else f"{text[:_SNIPPET]}..."
            yield f"{rank:3}  {hit.score:8.3f}  {hit.title}\n               {cut}"
