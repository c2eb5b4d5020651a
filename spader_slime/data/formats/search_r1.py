"""Search-R1: `{"question", "golden_answers", "data_source", "prompt", "reward_model", ...}`."""

from __future__ import annotations

from typing import Any

from spader_slime.data.fields import (
    as_list,
    list_of,
    mapping_of,
    messages_of,
    question_in,
    question_of,
    text_of,
)
from spader_slime.data.question import Answers, Question


def read_search_r1(record: dict[str, Any]) -> Question:
    """One row of Search-R1's nq or hotpotqa: `golden_answers` are names of one answer.

    A nested list is a list of answers, each with its aliases. Without `golden_answers` the target
    of the reward model counts, which may be a bare string.

    Raises:
        BadRecord: no question, or answers that are no list.
        LeftOut: no answers.
    """
    messages = messages_of(record)
    found = {**record, "prompt": question_in(messages)}
    answers = Answers()
    for names in _entities(_golden(record)):
        answers.add(names)
    return Question(
        id=text_of(record, "id"),
        question=question_of(found, "question", "prompt"),
        source=text_of(record, "data_source") or "search_r1",
        answers=answers.require(),
        messages=messages,
    )


def _golden(record: dict[str, Any]) -> list[Any]:
    if as_list(record.get("golden_answers")) != []:
        return list_of(record, "golden_answers")
    truth = mapping_of(mapping_of(record, "reward_model"), "ground_truth")
    if isinstance(truth.get("target"), str):
        return [truth["target"]]
    return list_of(truth, "target")


def _entities(golden: list[Any]) -> list[list[Any]]:
    nested = [as_list(names) for names in golden if names is not None]
    if nested and all(names is not None for names in nested):
        return [names for names in nested if names is not None]
    return [golden] if golden else []
