"""Converting rows that come from parquet files, or as the arrays that pandas makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from data.expected import LABELS
from data.test_convert import FILES, rows, run

from spader_slime.data.formats import FORMATS


@pytest.mark.parametrize("name", ["search_r1.jsonl", "spader.jsonl"])
def test_the_same_from_parquet_and_from_arrays(name: str, tmp_path: Path) -> None:
    """The first row of both files has the shape that the training parquet files have."""
    record = json.loads((FILES / name).read_text("utf-8").splitlines()[0])
    kind = name.split(".")[0]
    path = tmp_path / f"{kind}.parquet"
    parquet.write_table(arrow.Table.from_pylist([record] * 3), path)
    report = run(str(path), tmp_path / "out.jsonl")
    assert (report.rows_in, report.rows_out) == (3, 3)
    assert [row["label"] for row in rows(tmp_path / "out.jsonl")] == [LABELS[name][0]] * 3
    assert FORMATS[kind](arrays(record)) == FORMATS[kind](record)


def arrays(value: Any) -> Any:
    """Lists as arrays of objects, as pandas reads parquet."""
    if isinstance(value, dict):
        return {key: arrays(member) for key, member in value.items()}
    if not isinstance(value, list):
        return value
    found = np.empty(len(value), dtype=object)
    found[:] = [arrays(member) for member in value]
    return found
