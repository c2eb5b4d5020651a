"""A corpus: files, read in order as one stream of passages that can be taken up again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from spader_slime.errors import DataError
from spader_slime.retrieval.fields import Fields, to_passage
from spader_slime.retrieval.passages import Passage
from spader_slime.retrieval.sources import Located, Source, find_sources


class Corpus:
    """Passages of files.

    Args:
        paths: files (see `sources.SUFFIXES`), or folders of them.
        fields: where title and text are; None: the layouts of `fields.KNOWN`.
        skip_bad: leave out and count what can't be read, instead of stopping there.

    Attributes:
        size: bytes of all files.
        read: records read so far, skipped ones included.
        bad: records left out so far.
        first_bad: what was wrong with the first of them.

    Raises:
        DataError: a path is missing or not a corpus.
    """

    def __init__(
        self, paths: Iterable[Path], fields: Fields | None = None, skip_bad: bool = False
    ) -> None:
        self._sources = find_sources(paths)
        self._fields, self._skip_bad = fields, skip_bad
        self._current: Source | None = None
        self._before = 0  # bytes of the files before the current one
        self.size = sum(source.size for source in self._sources)
        self.read = self.bad = 0
        self.first_bad = ""

    @property
    def position(self) -> int:
        """Bytes read so far."""
        return self._before + (self._current.position if self._current else 0)

    def passages(self, skip: int = 0) -> Iterator[Passage]:
        """All passages after the first `skip` records.

        Raises:
            DataError: names file and line of what can't be read.
        """
        self.read = skip
        for where, record in islice(self._records(), skip, None):
            self.read += 1
            try:
                passage = to_passage(_parsed(record), self._fields)
            except (DataError, orjson.JSONDecodeError) as error:
                self._left_out(f"{where}: {error}", error)
            else:
                yield passage

    def describe(self) -> dict[str, Any]:
        """What tells this corpus from another: files with sizes and times, and how they are read.

        Two builds with equal descriptions read the same passages.
        """
        files = [[str(s.path.resolve()), s.size, s.path.stat().st_mtime_ns] for s in self._sources]
        fields = asdict(self._fields) if self._fields else None
        return {"files": files, "fields": fields}

    def _records(self) -> Iterator[Located]:
        self._before = 0
        for source in self._sources:
            self._current = source
            yield from source.records()
            self._current, self._before = None, self._before + source.size

    def _left_out(self, reason: str, cause: Exception) -> None:
        if not self._skip_bad:
            raise DataError(reason) from cause
        self.bad += 1
        self.first_bad = self.first_bad or reason


def _parsed(record: Any) -> object:
    return orjson.loads(record) if isinstance(record, bytes) else record


def read_passages(paths: Iterable[Path]) -> Iterator[Passage]:
    """Stream the passages of corpus files in a known layout (see `Corpus`)."""
    return Corpus(paths).passages()
