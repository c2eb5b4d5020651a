"""Rows of the prompt files, read the way slime reads them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from spader_slime.config import read_yaml
from spader_slime.doctor.facts import DataFile
from spader_slime.doctor.flags import Flags
from spader_slime.errors import ConfigError, SpaderError

MAX_ROWS = 20_000  # of each file
_SLICE = re.compile(r"(.*)@\[(-?\d*):(-?\d*)\]")
_SUFFIXES = (".jsonl", ".parquet")


def named_files(flags: Flags) -> list[DataFile]:
    """The training file and the evaluation files that the flags name, not yet read."""
    text = flags.text
    train = DataFile(
        "train",
        path=text("prompt-data") or "",
        input_key=text("input-key") or "input",
        label_key=text("label-key"),
        metadata_key=text("metadata-key") or "metadata",
        tool_key=text("tool-key") or "tools",
    )
    evaluated = replace(
        train,
        input_key=text("eval-input-key") or train.input_key,
        label_key=text("eval-label-key") or train.label_key,
        tool_key=text("eval-tool-key") or train.tool_key,
    )
    return [*([train] if train.path else []), *_evaluation(flags, evaluated)]


def _evaluation(flags: Flags, file: DataFile) -> Iterator[DataFile]:
    """Evaluation files with what `file` says of their columns."""
    if config := flags.text("eval-config"):
        try:
            yield from _configured(config, file)
        except ConfigError as error:
            yield replace(file, name="eval-config", path=config, fault=str(error))
        return
    words = flags.values.get("eval-prompt-data", ())
    names, paths = (("eval",), words) if len(words) == 1 else (words[::2], words[1::2])
    for name, path in zip(names, paths, strict=False):
        yield replace(file, name=name, path=path)


def _configured(path: str, file: DataFile) -> Iterator[DataFile]:
    loaded = read_yaml(path)
    section = loaded.get("eval", loaded)
    listed = section.get("datasets") if isinstance(section, dict) else None
    if isinstance(listed, dict):
        listed = [{"name": name, **(entry or {})} for name, entry in listed.items()]
    if not listed or not all(isinstance(item, dict) and item.get("path") for item in listed):
        raise ConfigError("--eval-config", path, "`eval.datasets`, each with a name and a path")
    keys = ("name", "path", "input_key", "label_key", "metadata_key", "tool_key")
    for item in listed:
        given = {"name": "eval", **(section.get("defaults") or {}), **item}
        yield replace(file, **{key: given[key] for key in keys if given.get(key)})


def read_rows(file: DataFile) -> DataFile:
    """`file` with its rows, or with the reason why there are none."""
    if file.fault:
        return file
    real, start, stop = _sliced(file.path)
    wanted = {file.input_key, file.label_key, file.metadata_key, file.tool_key}
    if not real.endswith(_SUFFIXES):
        return replace(file, fault="slime reads .jsonl and .parquet files only")
    read = _parquet if real.endswith(".parquet") else _lines
    try:
        return _filled(file, read(Path(real), wanted), start, stop)
    except (OSError, SpaderError, UnicodeDecodeError) as error:
        return replace(file, fault=f"it can't be read: {error}")


Row = Mapping[str, Any] | tuple[str, ...] | None  # a row, the names of columns, a bad line


def _filled(file: DataFile, read: Iterator[Row], start: int | None, stop: int | None) -> DataFile:
    rows: list[Mapping[str, Any]] = []
    columns: dict[str, None] = {}
    unreadable, complete = 0, True
    from_end = min(start or 0, stop or 0) < 0  # needs the whole file
    limit = math.inf if from_end else MAX_ROWS + (start or 0)
    for row in read:
        if isinstance(row, tuple):
            columns |= dict.fromkeys(row)
        elif row is None:
            unreadable += 1
        elif len(rows) >= limit:
            complete = False
            break
        else:
            rows.append(row)
    kept = tuple(rows[slice(start, stop)])[:MAX_ROWS]
    return replace(
        file, rows=kept, columns=tuple(columns), complete=complete, unreadable=unreadable
    )


def _sliced(path: str) -> tuple[str, int | None, int | None]:
    found = _SLICE.fullmatch(path)
    if not found:
        return path, None, None
    start, stop = (int(word) if word else None for word in found.groups()[1:])
    return found[1], start, stop


def _lines(path: Path, wanted: set[str | None]) -> Iterator[Row]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                yield None
                continue
            if not isinstance(row, dict):
                yield None
                continue
            yield tuple(row)
            yield {key: value for key, value in row.items() if key in wanted}


def _parquet(path: Path, wanted: set[str | None]) -> Iterator[Row]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ConfigError("pyarrow", "missing", "pip install pyarrow (slime needs it)") from error
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            yield tuple(names)
            for batch in file.iter_batches(1024, columns=[n for n in names if n in wanted]):
                yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise ConfigError("parquet file", str(path), f"a readable one ({error})") from error
