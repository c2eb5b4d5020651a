"""Rows into parquet or jsonl, under their final name only when complete."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from spader_slime.data.reading import ROWS_AT_ONCE, import_parquet
from spader_slime.errors import DataError

Write = Callable[[dict[str, Any]], None]


@contextmanager
def writer(path: Path, schema: Any = None) -> Iterator[Write]:
    """A function that writes one row; the suffix of `path` says how.

    Until the end the rows are in a file beside `path`, which goes away on an error.

    Args:
        schema: Arrow schema, for parquet.

    Raises:
        DataError: another suffix than .parquet and .jsonl, a folder that can't be written to, or
            a row that does not fit the schema.
    """
    if path.suffix not in (".parquet", ".jsonl"):
        raise DataError(f"{path}: the name must end in .parquet or .jsonl")
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            with _parquet(part, schema) as write:
                yield write
        else:
            with part.open("w", encoding="utf-8") as file:
                yield _line_writer(file)
        part.replace(path)
    except OSError as error:
        raise DataError(f"{path} can't be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def _line_writer(file: IO[str]) -> Write:
    def write(row: dict[str, Any]) -> None:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")

    return write


@contextmanager
def _parquet(path: Path, schema: Any) -> Iterator[Write]:
    parquet = import_parquet()
    waiting: list[dict[str, Any]] = []
    from pyarrow import ArrowException, Table

    def flush() -> None:
        try:
            out.write_table(Table.from_pylist(waiting, schema=schema))
        except ArrowException as error:
            raise DataError(f"rows that parquet can't hold: {error}") from error
        waiting.clear()

    def write(row: dict[str, Any]) -> None:
        waiting.append(row)
        if len(waiting) == ROWS_AT_ONCE:
            flush()

    with parquet.ParquetWriter(path, schema) as out:
        yield write
        flush()


def row_schema(messages: bool) -> Any:
    """Arrow schema of `rows.slime_row`: the same for every format, so that files can be joined."""
    import_parquet()
    import pyarrow as arrow

    text = arrow.string()
    message = arrow.struct([("role", text), ("content", text)])
    gold = arrow.list_(arrow.list_(text))
    metadata = arrow.struct(
        [
            *((name, text) for name in ("id", "source", "source_name", "question", "kind")),
            ("official", arrow.list_(gold)),
            ("tiers", arrow.list_(text)),
        ]
    )
    prompt = arrow.list_(message) if messages else text
    return arrow.schema([("prompt", prompt), ("label", gold), ("metadata", metadata)])


def without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    """A row for jsonl: members of the metadata that are None go."""
    known = {name: value for name, value in row["metadata"].items() if value is not None}
    return {**row, "metadata": known}
