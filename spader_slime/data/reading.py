"""Records of a file, one at a time: jsonl, JSON arrays, parquet, and gzip of the first two."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from spader_slime.errors import DataError

SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet")
ROWS_AT_ONCE = 1024  # of a parquet file
_LISTS = ("Questions", "data")  # keys under which an object holds the records


@dataclass(frozen=True)
class Record:
    """One record, or what was wrong with it.

    Attributes:
        number: line, item or row, counted from 1.
        place: the same in words, with the file's name.
        value: the record as a mapping; None where `fault` says why there is none.
    """

    number: int
    place: str
    value: dict[str, Any] | None
    fault: str = ""


def read_records(path: str | Path) -> Iterator[Record]:
    """The records of a file in order; blank lines are none.

    Lines and parquet are read as a stream; a JSON array or object is held in memory. A `.json`
    file may hold lines, and a `.jsonl` file an array: what is inside decides.

    Raises:
        DataError: no such file, an unknown suffix, or a file that is broken as a whole (cut gzip,
            cut array, no parquet). A broken line is a `Record` with a fault.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"no file at {path}")
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise DataError(f"{path}: the name must end in one of {', '.join(SUFFIXES)}")
    return _parquet(path) if name.endswith(".parquet") else _json_file(path)


def count_records(path: Path) -> int | None:
    """How many records a parquet file holds; None for other files, which would have to be read."""
    return _open_parquet(path).metadata.num_rows if path.suffix == ".parquet" else None


def parquet_schema(path: Path) -> Any:
    """Arrow schema of a parquet file."""
    return _open_parquet(path).schema_arrow


def import_parquet() -> Any:
    """The module `pyarrow.parquet`.

    Raises:
        DataError: pyarrow is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise DataError("parquet needs pyarrow: pip install 'spader_slime[data]'") from error
    return pyarrow.parquet


def _open_parquet(path: Path) -> Any:
    parquet = import_parquet()
    try:
        return parquet.ParquetFile(path)
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        raise DataError(f"{path} is not a parquet file: {error}") from error


def _parquet(path: Path) -> Iterator[Record]:
    batches = _open_parquet(path).iter_batches(batch_size=ROWS_AT_ONCE)
    rows = (row for batch in batches for row in batch.to_pylist())
    for number, row in enumerate(rows, 1):
        yield Record(number, f"{path.name}, row {number}", row)


def _json_file(path: Path) -> Iterator[Record]:
    with _binary(path) as file:
        first = next((line for line in file if line.strip(b"\xef\xbb\xbf \t\r\n")), b"")
    if _is_whole(first, lines=".jsonl" in path.name.lower()):
        yield from _whole(path)
        return
    with _binary(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _record(line, number, f"{path.name}, line {number}")


@contextmanager
def _binary(path: Path) -> Iterator[IO[bytes]]:
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield file  # type: ignore[misc]
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is a broken gzip file: {error}") from error


def _is_whole(first: bytes, lines: bool) -> bool:
    """Whether the first line begins an array or object that is the file, rather than a record."""
    first = first.lstrip(b"\xef\xbb\xbf").strip()
    if first.startswith(b"["):
        return not lines or first == b"[" or first.startswith(b"[{")
    if lines:
        return False
    try:
        value = json.loads(first)
    except ValueError:
        return True
    return isinstance(value, dict) and any(isinstance(value.get(key), list) for key in _LISTS)


def _whole(path: Path) -> Iterator[Record]:
    try:
        with _binary(path) as file:
            items = json.loads(file.read().decode("utf-8-sig"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}") from error
    if isinstance(items, dict):
        items = next((items[key] for key in _LISTS if isinstance(items.get(key), list)), None)
    if not isinstance(items, list):
        raise DataError(f"{path}: expected an array, or an object with {' or '.join(_LISTS)}")
    for number, item in enumerate(items, 1):
        yield _checked(item, number, f"{path.name}, item {number}")


def _record(line: bytes, number: int, place: str) -> Record:
    try:
        return _checked(json.loads(line.decode("utf-8-sig")), number, place)
    except (ValueError, RecursionError) as error:  # JSON and UTF-8 faults are ValueErrors
        return Record(number, place, None, f"not JSON: {error}")


def _checked(value: Any, number: int, place: str) -> Record:
    if isinstance(value, dict):
        return Record(number, place, value)
    return Record(number, place, None, f"not an object but {type(value).__name__}")
