"""Records of one corpus file, as a stream: jsonl, jsonl.gz, tar of these, parquet."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from spader_slime.errors import DataError
from spader_slime.retrieval.extras import need

LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
TARS = (".tar.gz", ".tgz", ".tar")
PARQUET = (".parquet",)
SUFFIXES = LINES + TARS + PARQUET
_ROWS = 1024  # of a parquet file that are in memory at once

Record = bytes | dict[str, Any]  # a line of JSON, or a row
Located = tuple[str, Record]  # where it stands, as in "file.jsonl:17", and the record


class Source:
    """A corpus file.

    Raises:
        DataError: no such file, or not of a known kind.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise DataError(f"{path}: no such corpus file")
        if not path.name.endswith(SUFFIXES):
            raise DataError(f"{path}: not a corpus file; expected one of {' '.join(SUFFIXES)}")
        self.path, self.size = path, path.stat().st_size
        self._position: Callable[[], float] = lambda: 0.0

    @property
    def position(self) -> int:
        """Bytes of the file that were read so far."""
        return int(self._position())

    def records(self) -> Iterator[Located]:
        """All records with their places; blank lines are none.

        Raises:
            DataError: the file is damaged, or pyarrow is missing for parquet.
        """
        try:
            yield from self._parquet() if self.path.name.endswith(PARQUET) else self._plain()
        except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
            raise DataError(f"{self.path}: damaged or cut short ({error})") from error

    def _plain(self) -> Iterator[Located]:
        with self.path.open("rb") as raw:
            self._position = raw.tell
            if self.path.name.endswith(TARS):
                yield from _members(raw, str(self.path))
            else:
                yield from _lines(raw, str(self.path))
            self._position = lambda: self.size

    def _parquet(self) -> Iterator[Located]:
        parquet = need("pyarrow.parquet", "reading parquet", "spader_slime[data]")
        arrow = need("pyarrow", "reading parquet", "spader_slime[data]")
        row = 0
        try:
            file = parquet.ParquetFile(self.path)
            self._position = lambda: self.size * row / max(file.metadata.num_rows, 1)
            for batch in file.iter_batches(_ROWS):
                for record in batch.to_pylist():
                    row += 1
                    yield f"{self.path}:{row}", record
        except arrow.ArrowException as error:
            raise DataError(f"{self.path}: damaged parquet ({error})") from error


def _lines(raw: IO[bytes], name: str) -> Iterator[Located]:
    zipped = name.endswith(".gz")
    lines: Iterable[bytes] = raw
    if zipped:
        lines = io.BufferedReader(cast(Any, gzip.GzipFile(fileobj=raw)), 2**20)
    for number, line in enumerate(lines, 1):
        if not line.isspace():
            yield f"{name}:{number}", line


def _members(raw: IO[bytes], name: str) -> Iterator[Located]:
    with tarfile.open(fileobj=raw, mode="r|*", bufsize=2**20) as tar:
        for member in tar:
            resource_fork = Path(member.name).name.startswith("._")  # as macOS packs beside files
            if member.isfile() and member.name.endswith(LINES) and not resource_fork:
                content = cast(IO[bytes], tar.extractfile(member))
                yield from _lines(content, f"{name}/{member.name}")


def find_sources(paths: Iterable[Path]) -> list[Source]:
    """The files, in the order given; of a folder all corpus files in it, 2 before 10.

    Raises:
        DataError: nothing is there, or not of a known kind.
    """
    files: list[Path] = []
    for path in paths:
        inside = [p for p in path.rglob("*") if p.name.endswith(SUFFIXES)] if path.is_dir() else []
        if path.is_dir() and not inside:
            raise DataError(f"{path}: no corpus files ({' '.join(SUFFIXES)}) in this folder")
        files += sorted(inside, key=_natural) or [path]
    return [Source(path) for path in files]


def _natural(path: Path) -> list[tuple[int, str]]:
    pieces = re.findall(r"\d+|\D+", str(path))
    return [(int(piece), "") if piece.isdigit() else (-1, piece) for piece in pieces]
