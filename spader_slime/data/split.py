"""A file of slime rows into parts that share neither questions nor gold sets."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from spader_slime.data.leaks import Leak, Seen, leaks, seen_in
from spader_slime.data.reading import count_records, parquet_schema
from spader_slime.data.rows import DEFAULT_KEYS, Keys, Row, sound_rows
from spader_slime.data.writing import writer
from spader_slime.errors import DataError

APART = ("both", "question", "gold")  # what rows of different parts must not share


@dataclass(frozen=True)
class Split:
    """What a split did.

    Attributes:
        parts: part -> rows.
        groups: sets of rows that had to stay together; joined: the rows in sets of two or more.
        left_out: rows that share a question or gold set with a file to keep apart from.
        leaks: what the written parts (and those files) share all the same.
    """

    parts: dict[str, int]
    groups: int
    joined: int
    left_out: int
    leaks: list[Leak]

    def lines(self) -> list[str]:
        """The result as text."""
        rows = ", ".join(f"{name} {n}" for name, n in self.parts.items())
        return [
            f"rows: {rows}",
            f"rows kept together with others: {self.joined}",
            *([f"rows left out: {self.left_out}"] if self.left_out else []),
            *(line for leak in self.leaks for line in leak.lines()),
            *([] if self.leaks else ["the parts share no question and no gold set"]),
        ]


def split_file(
    path: Path,
    out: Path,
    shares: Mapping[str, float],
    seed: int = 0,
    apart: str = "both",
    against: Sequence[Path] = (),
    keys: Keys = DEFAULT_KEYS,
) -> Split:
    """Write `out`/PART.parquet (or .jsonl, as the input) and `out`/split.json.

    Rows with the same question after normalization, or the same gold set, go to the same part, so
    that parts may differ a little from their shares. The same seed gives the same split.

    Args:
        shares: part -> weight, above 0.
        apart: one of `APART`.
        against: files whose questions and gold sets must not come up; such rows are left out.

    Raises:
        DataError: unreadable files, a bad row, shares that are not above 0, a part
            without rows, or a part that would overwrite the input.
    """
    if not shares or min(shares.values()) <= 0:
        raise DataError(f"shares must be above 0, not {dict(shares)}")
    others = [seen_in(file, keys) for file in against]
    row_keys = [_keys(row, apart) for row in _progress(path, keys)]
    banned = {key for seen in others for key in _all_keys(seen, apart)}
    kept = {i: found for i, found in enumerate(row_keys) if not banned.intersection(found)}
    if not kept:
        raise DataError(f"{path} leaves no row to split")
    groups = _groups(kept)
    part_of = _assign(groups, shares, seed)
    _require_rows(shares, part_of)
    files = _files(path, out, shares)
    _write(path, files, part_of, keys)
    found = Split(
        {name: Counter(part_of.values())[name] for name in shares},
        len(groups),
        sum(len(group) for group in groups if len(group) > 1),
        len(row_keys) - len(kept),
        leaks([*(seen_in(file, keys) for file in files.values()), *others]),
    )
    text = json.dumps({"input": str(path), "seed": seed, "apart": apart, **asdict(found)}, indent=1)
    (out / "split.json").write_text(text + "\n", encoding="utf-8")
    return found


def _require_rows(shares: Mapping[str, float], part_of: Mapping[int, str]) -> None:
    empty = [name for name in shares if name not in part_of.values()]
    if empty:
        raise DataError(f"too few rows that can be apart: none for {', '.join(empty)}")


def _files(path: Path, out: Path, shares: Mapping[str, float]) -> dict[str, Path]:
    suffix = ".parquet" if path.suffix == ".parquet" else ".jsonl"
    files = {name: out / f"{name}{suffix}" for name in shares}
    if path.resolve() in [file.resolve() for file in files.values()]:
        raise DataError(f"{path} would be overwritten; choose another folder or part name")
    return files


def _progress(path: Path, keys: Keys) -> Any:
    return tqdm(sound_rows(path, keys), desc=path.name, total=count_records(path), disable=None)


def _keys(row: Row, apart: str) -> list[Hashable]:
    both: list[Hashable] = [("question", row.question_key), ("gold", row.gold_key)]
    return [key for key in both if apart in ("both", key[0])]  # type: ignore[index]


def _all_keys(seen: Seen, apart: str) -> list[Hashable]:
    both = [*(("question", q) for q in seen.questions), *(("gold", g) for g in seen.golds)]
    return [key for key in both if apart in ("both", key[0])]


def _groups(kept: Mapping[int, Sequence[Hashable]]) -> list[list[int]]:
    """Row numbers that share keys, directly or through others, in order of their first row."""
    parent = {row: row for row in kept}

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = row = parent[parent[row]]
        return row

    owner: dict[Hashable, int] = {}
    for row, found in kept.items():
        for key in found:
            parent[root(row)] = root(owner.setdefault(key, row))
    groups: dict[int, list[int]] = {}
    for row in kept:
        groups.setdefault(root(row), []).append(row)
    return list(groups.values())


def _assign(groups: list[list[int]], shares: Mapping[str, float], seed: int) -> dict[int, str]:
    """Row -> part: large groups first, each to the part that lacks most."""
    shuffled = list(groups)
    random.Random(seed).shuffle(shuffled)
    rows, whole = sum(map(len, groups)), sum(shares.values())
    lacking = {name: share / whole * rows for name, share in shares.items()}
    part_of = {}
    for group in sorted(shuffled, key=len, reverse=True):
        name = max(lacking, key=lacking.__getitem__)
        lacking[name] -= len(group)
        part_of.update(dict.fromkeys(group, name))
    return part_of


def _write(path: Path, files: Mapping[str, Path], part_of: Mapping[int, str], keys: Keys) -> None:
    schema = parquet_schema(path) if path.suffix == ".parquet" else None
    for name, file in files.items():
        with writer(file, schema) as write:
            for number, row in enumerate(sound_rows(path, keys)):
                if part_of.get(number) == name:
                    write(row.record)
