"""Rows that slime reads: `prompt`, `label`, `metadata`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spader_slime.algorithms.gold import Gold, as_gold
from spader_slime.algorithms.normalization import normalize
from spader_slime.data.fields import as_list, messages_of, question_in, text_of
from spader_slime.data.question import LeftOut, Messages, Question
from spader_slime.data.reading import Record, read_records
from spader_slime.errors import DataError

PROMPTS = ("messages", "question", "own")

Prompt = Messages | str
Prompter = Callable[[Question], Prompt]


@dataclass(frozen=True)
class Keys:
    """Names of the columns, as slime's --input-key, --label-key and --metadata-key."""

    prompt: str = "prompt"
    label: str = "label"
    metadata: str = "metadata"


DEFAULT_KEYS = Keys()


@dataclass(frozen=True)
class Row:
    """One checked row of a slime file.

    Attributes:
        place: file and line or row number, in words.
        record: all columns as read.
        question: from the metadata, or from the prompt.
    """

    place: str
    record: dict[str, Any]
    prompt: Prompt
    question: str
    gold: Gold
    metadata: dict[str, Any]

    @property
    def question_key(self) -> str:
        """What two rows share that ask the same."""
        return normalize(self.question)

    @property
    def gold_key(self) -> tuple[str, ...]:
        """What two rows share that have the same answers, each by its first alias."""
        return tuple(sorted({normalize(aliases[0]) for aliases in self.gold}))


def prompter(kind: str, messages: Callable[[str], Messages]) -> Prompter:
    """How prompts are made.

    Args:
        kind: "messages": a protocol's messages around the question; "question": the bare
            question, around which the rollout puts them; "own": the data set's own messages.
        messages: the protocol's messages for a question.
    """
    if kind == "messages":
        return lambda found: messages(found.question)
    return _own if kind == "own" else lambda found: found.question


def _own(found: Question) -> Prompt:
    if not found.messages:
        raise LeftOut("no prompt messages of its own")
    return found.messages


def slime_row(found: Question, prompt: Prompt, default_id: str) -> dict[str, Any]:
    """One row; members of the metadata that don't apply are None."""
    metadata = {
        "id": found.id or default_id,
        "source": found.source,
        "source_name": found.source,  # where slime looks for it
        "question": found.question,
        "kind": found.kind,
        "official": found.official,
        "tiers": list(found.tiers) if found.tiers else None,
    }
    return {"prompt": prompt, "label": found.gold, "metadata": metadata}


def read_rows(path: str | Path, keys: Keys = DEFAULT_KEYS) -> Iterator[Row | Record]:
    """The rows of a slime file; a `Record` with its fault in the place of a bad row.

    Raises:
        DataError: a file that can't be read at all (see `read_records`).
    """
    for record in read_records(path):
        if record.value is None:
            yield record
            continue
        try:
            yield _row(record, record.value, keys)
        except DataError as error:
            yield Record(record.number, record.place, None, str(error))


def sound_rows(path: str | Path, keys: Keys = DEFAULT_KEYS) -> Iterator[Row]:
    """The rows of a slime file.

    Raises:
        DataError: as `read_rows`, and at the first bad row.
    """
    for row in read_rows(path, keys):
        if isinstance(row, Record):
            raise DataError(f"{row.place}: {row.fault}")
        yield row


def _row(record: Record, value: dict[str, Any], keys: Keys) -> Row:
    prompt = _prompt(value, keys.prompt)
    if value.get(keys.label) is None:
        raise DataError(f"no label under {keys.label!r}")
    metadata = value.get(keys.metadata)
    if metadata is not None and not isinstance(metadata, dict):
        raise DataError(f"{keys.metadata!r} is not a mapping but {metadata!r:.60}")
    metadata = metadata or {}
    asked = prompt if isinstance(prompt, str) else question_in(prompt)
    question = text_of(metadata, "question") or asked
    return Row(record.place, value, prompt, question, as_gold(value[keys.label]), metadata)


def _prompt(value: dict[str, Any], key: str) -> Prompt:
    found = value.get(key)
    if isinstance(found, str) and found.strip():
        return found
    messages = messages_of(value, key)
    if messages:
        return messages
    if as_list(found) or found:
        raise DataError(f"{key!r} is neither text nor a list of role and content: {found!r:.60}")
    raise DataError(f"no prompt under {key!r}")
