"""Build an index from corpus files: with progress, and able to go on after a kill.

Before every commit the build notes in `progress.json` how many records of the corpus stand behind
how many passages. The engine's own count says which commit was the last that succeeded; reading
goes on behind the records noted for it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from spader_slime.errors import DataError
from spader_slime.retrieval.backend import Writer
from spader_slime.retrieval.corpus import Corpus
from spader_slime.retrieval.manifest import FILE, read_manifest, write_json, write_manifest

_COMMIT_EVERY = 200_000  # passages; what a kill can cost
_OF_BACKEND = {"tantivy": 1_000_000}  # its segments: few, large ones are searched faster
_PROGRESS = "progress.json"


@dataclass(frozen=True)
class Built:
    """What a build did.

    Attributes:
        passages: in the index.
        resumed: passages that an earlier, interrupted build had left.
        bad: records of the corpus that were left out.
        first_bad: place and reason of the first of them in this run.
        already: the index was complete before.
    """

    passages: int
    resumed: int = 0
    bad: int = 0
    first_bad: str = ""
    already: bool = False

    def summary(self, folder: Path) -> str:
        """One line for the user, two if records were left out."""
        made = "was complete already" if self.already else f"{self.passages:,} passages"
        resumed = f", {self.resumed:,} of them from an earlier run" if self.resumed else ""
        bad = f"\n{self.bad:,} records were left out, the first: " if self.bad else ""
        return f"{folder}: {made}{resumed}{bad}{self.first_bad if self.bad else ''}"


def build(
    corpus: Corpus,
    folder: Path,
    kind: str,
    open_writer: Callable[[Path], Writer],
    settings: dict[str, Any],
    overwrite: bool = False,
    commit_every: int | None = None,
) -> Built:
    """Index `corpus` into `folder`, or go on with what an interrupted call left there.

    Args:
        kind: name of the backend, for the manifest.
        open_writer: given the folder, opens what fills the index.
        settings: what else the index depends on; goes to the manifest.
        overwrite: remove what is in `folder` first.
        commit_every: passages; None: what suits the backend.

    Raises:
        DataError: a bad record (its place is named); no passage at all; `folder` holds something
            else, or a build of another corpus or with other settings.
    """
    plan = {"backend": kind, "corpus": corpus.describe(), "settings": settings}
    if overwrite:
        _check_removable(folder)
        shutil.rmtree(folder, ignore_errors=True)
    if (folder / FILE).is_file():
        return _already(folder, plan)
    journal = _Journal(folder, plan)
    writer = open_writer(folder)
    resumed = writer.done
    _fill(writer, corpus, journal, commit_every or _OF_BACKEND.get(kind, _COMMIT_EVERY))
    if not writer.done:
        shutil.rmtree(folder)
        raise DataError("no passages to index")
    bad = corpus.bad
    write_manifest(folder, kind, writer.done, {**plan, **writer.facts, "bad": bad})
    journal.remove()
    return Built(writer.done, resumed, bad, corpus.first_bad)


def _fill(writer: Writer, corpus: Corpus, journal: _Journal, commit_every: int) -> None:
    at = journal.state(writer.done)
    writer.facts.update(at["facts"])
    corpus.bad = at["bad"]
    added = writer.done
    with tqdm(total=corpus.size, unit="B", unit_scale=True, desc="index", mininterval=0.5) as bar:
        for passage in corpus.passages(skip=at["records"]):
            writer.add(passage)
            added += 1
            if added % 1000 == 0:
                bar.set_postfix(passages=added, refresh=False)
                bar.update(corpus.position - bar.n)
            if added % commit_every == 0:
                journal.note(added, corpus, writer.facts)
                writer.commit()
        bar.update(corpus.size - bar.n)
    journal.note(added, corpus, writer.facts)
    writer.finish()


def _already(folder: Path, plan: dict[str, Any]) -> Built:
    manifest = read_manifest(folder)
    if {name: manifest.get(name) for name in plan} != plan:
        raise DataError(
            f"{folder} holds an index of another corpus or with other settings: "
            "choose another folder, or pass --overwrite"
        )
    return Built(manifest["passages"], bad=manifest["bad"], already=True)


def _check_removable(folder: Path) -> None:
    ours = (folder / FILE).is_file() or (folder / _PROGRESS).is_file()
    if folder.exists() and not ours and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} is no index: it is not removed")


class _Journal:
    """`progress.json`: how far in the corpus each of the last two commits was."""

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        self._path, self._plan = folder / _PROGRESS, plan
        self._entries: list[dict[str, Any]] = []
        if self._path.is_file():
            self._load()
            return
        _check_removable(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._write()

    def _load(self) -> None:
        kept = json.loads(self._path.read_text(encoding="utf-8"))
        if kept["plan"] != self._plan:
            raise DataError(
                f"{self._path.parent} holds a half-built index of another corpus or with other "
                "settings (files, sizes and times are compared): pass --overwrite to start over"
            )
        self._entries = kept["entries"]

    def state(self, passages: int) -> dict[str, Any]:
        """Where the corpus stood when `passages` had been added."""
        if not passages:
            return {"records": 0, "bad": 0, "facts": {}}
        found = [entry for entry in self._entries if entry["passages"] == passages]
        if not found:
            raise DataError(f"{self._path} does not match the index: pass --overwrite")
        return found[-1]

    def note(self, passages: int, corpus: Corpus, facts: dict[str, Any]) -> None:
        entry = {"passages": passages, "records": corpus.read, "bad": corpus.bad}
        self._entries = [*self._entries[-1:], {**entry, "facts": dict(facts)}]
        self._write()

    def remove(self) -> None:
        self._path.unlink()

    def _write(self) -> None:
        write_json(self._path, {"plan": self._plan, "entries": self._entries})
