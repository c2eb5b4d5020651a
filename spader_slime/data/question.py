"""One question as every format is read into it, and the gold set while it is built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from spader_slime.algorithms.gold import Gold
from spader_slime.algorithms.normalization import normalize
from spader_slime.errors import DataError

Messages = list[dict[str, str]]
Parses = list[list[list[str]]]


class BadRecord(DataError):
    """A record that is broken; `--strict` ends at the first. `reason` is what the report counts."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}" if detail else reason)


class LeftOut(BadRecord):
    """A sound record that can't be trained on, such as one without answers."""


@dataclass(frozen=True)
class Question:
    """A question with its gold set.

    Attributes:
        id: the data set's own id; "" where it has none.
        source: name of the benchmark, by which results are reported.
        official: what the benchmark's own scorer compares with, parses by entities by aliases;
            None where that is `gold`.
        kind: the data set's own class of the question.
        tiers: one per entity of `gold`, None where it has none.
        messages: the chat messages that came with the question.
    """

    id: str
    question: str
    source: str
    answers: Answers
    official: Parses | None = None
    kind: str | None = None
    tiers: tuple[str | None, ...] | None = None
    messages: Messages | None = None

    @property
    def gold(self) -> Gold:
        return self.answers.gold


@dataclass
class Answers:
    """A gold set that grows answer by answer and counts what it leaves out, by reason.

    Attributes:
        gold: entities kept, each a list of different aliases, the main name first.
        answers_left_out: reason -> answers.
        aliases_left_out: reason -> aliases of answers that were kept.
        notes: remark -> answers that were kept all the same.
    """

    gold: Gold = field(default_factory=list)
    answers_left_out: Counter[str] = field(default_factory=Counter)
    aliases_left_out: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    _seen: set[frozenset[str]] = field(default_factory=set)

    def add(self, names: Sequence[Any]) -> bool:
        """Add one answer by its names, the main one first; whether it was kept."""
        kept, dropped = _aliases(names)
        forms = frozenset(map(normalize, kept))
        if not kept:
            return self.leave_out("no usable name")
        if forms in self._seen:
            return self.leave_out("repeats another answer")
        self._seen.add(forms)
        self.gold.append(kept)
        self.aliases_left_out += dropped
        return True

    def leave_out(self, reason: str, count: int = 1) -> bool:
        """Count answers that are not added; always False."""
        self.answers_left_out[reason] += count
        return False

    def require(self) -> Answers:
        """These answers, if there is one.

        Raises:
            LeftOut: there is none.
        """
        if not self.gold:
            why = ", ".join(f"{n} x {reason}" for reason, n in self.answers_left_out.items())
            raise LeftOut("no answers", why)
        return self


def _aliases(names: Iterable[Any]) -> tuple[list[str], Counter[str]]:
    kept: list[str] = []
    dropped: Counter[str] = Counter()
    for name in names:
        text = as_text(name)
        if text is None:
            dropped["not text"] += 1
        elif not normalize(text):
            dropped["no letter or digit"] += 1
        elif text in kept:
            dropped["repeats another alias"] += 1
        else:
            kept.append(text)
    return kept, dropped


def as_text(value: Any) -> str | None:
    """A name as text: strings stripped, whole numbers written out, null blank; None: no name."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        return None
    return " ".join(whole(value).split())


def whole(text: str) -> str:
    """`text` with "?" for half characters (lone surrogates), which can't be stored."""
    return text.encode("utf-8", "replace").decode("utf-8")
