"""The SPADER authors' files: training parquet and evaluation jsonl."""

from __future__ import annotations

from typing import Any

from spader_slime.data.fields import (
    list_of,
    mapping_of,
    messages_of,
    names_of,
    question_in,
    question_of,
    text_of,
    unquoted,
)
from spader_slime.data.question import Answers, Question


def read_spader(record: dict[str, Any]) -> Question:
    """One row: `ground_truth` is a list of alias lists, beside the question or under
    `reward_model`.

    A training row has no question of its own: it is taken from its prompt, after "Question:". A
    string in the place of an alias list is one answer.

    Raises:
        BadRecord: no question, or answers that are no list.
        LeftOut: no answers.
    """
    messages, extra = messages_of(record), mapping_of(record, "extra_info")
    found = {**record, "prompt": question_in(messages)}
    answers = Answers()
    for names in _ground_truth(record):
        answers.add(names_of(names))
    return Question(
        id=text_of(record, "id", "qid") or text_of(extra, "index"),
        question=question_of(found, "question_text", "question", "prompt"),
        source=text_of(record, "data_source") or "spader",
        answers=answers.require(),
        messages=messages,
    )


def _ground_truth(record: dict[str, Any]) -> list[Any]:
    beside = record.get("ground_truth")
    found = mapping_of(record, "reward_model").get("ground_truth") if beside is None else beside
    if isinstance(found, dict):
        found = found.get("target")
    return list_of({"ground_truth": unquoted(found)}, "ground_truth")
