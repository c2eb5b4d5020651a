"""Files of a public format into one file of slime rows, with a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from spader_slime.data.formats import FORMATS
from spader_slime.data.question import BadRecord, LeftOut, Question
from spader_slime.data.reading import Record, count_records, read_records
from spader_slime.data.report import Report
from spader_slime.data.rows import Prompter, slime_row
from spader_slime.data.writing import row_schema, without_nulls, writer
from spader_slime.errors import DataError


def convert(
    format: str,
    inputs: Sequence[Path],
    out: Path,
    prompter: Prompter,
    messages: bool = True,
    strict: bool = False,
    source: str | None = None,
) -> Report:
    """Convert files and write `out` and, beside it, `out` + ".report.json".

    Args:
        format: one of `FORMATS`.
        prompter: makes a prompt of a question.
        messages: prompts are lists of messages, not text.
        strict: end at the first broken row. Sound rows that can't be used are no faults.
        source: replaces the rows' source.

    Raises:
        DataError: unreadable files, a broken row under `strict`, or nothing to write.
    """
    if out.resolve() in [path.resolve() for path in inputs]:
        raise DataError(f"{out} is also an input")
    report = Report(format, [str(path) for path in inputs], str(out))
    parquet = out.suffix == ".parquet"
    with writer(out, row_schema(messages) if parquet else None) as write:
        for path, record in _records(inputs):
            report.rows_in += 1
            try:
                found, row = _converted(format, path, record, prompter, source)
            except BadRecord as why:
                report.lost(record.place, why)
                if strict and not isinstance(why, LeftOut):
                    raise DataError(f"{record.place}: {why}") from why
                continue
            write(row if parquet else without_nulls(row))
            report.kept(found)
        if not report.rows_out:
            raise DataError("no row is left to write; " + "; ".join(report.lines()[:-3]))
    report.write(report_path(out))
    return report


def report_path(out: Path) -> Path:
    """Where the report of a conversion lies."""
    return out.with_name(out.name + ".report.json")


def _records(inputs: Sequence[Path]) -> Iterator[tuple[Path, Record]]:
    for path in inputs:
        shown = {"desc": path.name, "unit": " rows", "disable": None, "leave": False}
        records = read_records(path)
        for record in tqdm(records, total=count_records(path), **shown):
            yield path, record


def _converted(
    format: str, path: Path, record: Record, prompter: Prompter, source: str | None
) -> tuple[Question, dict[str, Any]]:
    if record.value is None:
        raise BadRecord("unreadable", record.fault)
    found = FORMATS[format](record.value)
    if source:
        found = replace(found, source=source)
    default_id = f"{path.name.split('.')[0]}-{record.number}"
    return found, slime_row(found, prompter(found), default_id)
