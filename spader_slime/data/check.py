"""Whether a file of slime rows can be trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tqdm import tqdm

from spader_slime.algorithms.normalization import normalize
from spader_slime.data.figures import listing
from spader_slime.data.reading import Record, count_records
from spader_slime.data.rows import Keys, Row, read_rows

SHOWN = 20  # faults printed of a file


@dataclass
class Check:
    """What was found in a file.

    Attributes:
        faults: rows that can't be used, place and reason each.
        warnings: rows that can be used, but hardly as meant; remark -> rows.
    """

    path: Path
    rows: int = 0
    faults: list[str] = field(default_factory=list)
    warnings: Counter[str] = field(default_factory=Counter)

    def lines(self) -> list[str]:
        """The result as text."""
        sound = self.rows - len(self.faults)
        more = len(self.faults) - SHOWN
        return [
            f"{self.path}: {sound} of {self.rows} rows are sound",
            *(f"  {fault}" for fault in self.faults[:SHOWN]),
            *([f"  ... and {more} more"] if more > 0 else []),
            *listing("remarks", self.warnings),
        ]


def check_file(path: Path, keys: Keys) -> Check:
    """Check every row.

    Raises:
        DataError: a file that can't be read at all.
    """
    found, rows = Check(path), read_rows(path, keys)
    seen = _Seen()
    for row in tqdm(rows, desc=path.name, unit=" rows", total=count_records(path), disable=None):
        found.rows += 1
        if isinstance(row, Record):
            found.faults.append(f"{row.place}: {row.fault}")
        else:
            found.warnings.update(set(seen.remarks(row)))
    if not found.rows:
        found.faults.append("no rows")
    return found


@dataclass
class _Seen:
    """What earlier rows held."""

    questions: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    kinds: set[type] = field(default_factory=set)

    def remarks(self, row: Row) -> Iterator[str]:
        """What is odd about a row."""
        if row.question_key in self.questions:
            yield "repeats the question of an earlier row"
        if str(row.metadata.get("id")) in self.ids:
            yield "repeats the id of an earlier row"
        if self.kinds and type(row.prompt) not in self.kinds:
            yield "prompt of another kind (text, messages) than the first row's"
        yield from _gold_remarks(row)
        self.questions.add(row.question_key)
        self.kinds.add(type(row.prompt))
        if row.metadata.get("id") is not None:
            self.ids.add(str(row.metadata["id"]))


def _gold_remarks(row: Row) -> Iterator[str]:
    forms = [frozenset(map(normalize, aliases)) - {""} for aliases in row.gold]
    if not all(forms):
        yield "an answer without a letter or digit can never be found"
    if len(set(forms)) < len(forms):
        yield "the same answer twice counts twice in recall"
    names = Counter(form for aliases in forms for form in aliases)
    if len(set(forms)) == len(forms) and any(n > 1 for n in names.values()):
        yield "a name that two answers share finds both"
    tiers = row.metadata.get("tiers")
    if tiers and len(tiers) != len(row.gold):
        yield "tiers are not one per answer"
