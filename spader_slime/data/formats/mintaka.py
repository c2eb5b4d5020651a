"""Mintaka: `{"id", "question", "answer": {"answerType", "answer": [{"name", "label"}]}, ...}`."""

from __future__ import annotations

from typing import Any

from spader_slime.data.fields import list_of, mapping_of, question_of, text_of
from spader_slime.data.question import Answers, LeftOut, Question, as_text

_NAMES = ("entity", "string")  # answer types whose answers are names


def read_mintaka(record: dict[str, Any]) -> Question:
    """One question of Mintaka with entity or string answers, by their English labels.

    Raises:
        BadRecord: no question, or answers that are no list.
        LeftOut: numbers, dates and booleans as answers; no linked entity; no label at all.
    """
    question, answer = question_of(record, "question"), mapping_of(record, "answer")
    kind = text_of(answer, "answerType") or "unknown"
    if kind not in _NAMES:
        raise LeftOut(f"answers of type {kind}", f"{answer.get('answer')!r:.60}")
    found = list_of(answer, "answer")
    if not found:
        raise LeftOut("no linked answer", f"annotated as {text_of(answer, 'mention')!r:.60}")
    answers = Answers()
    labels = [label for entity in found if (label := _label(entity))]
    answers.leave_out("no English label", len(found) - len(labels))
    for label in labels:
        answers.add([label])
    answers.answers_left_out = +answers.answers_left_out
    return Question(
        id=text_of(record, "id"),
        question=question,
        source="mintaka",
        answers=answers.require(),
        official=[[[" ".join(labels)]]],
        kind=text_of(record, "complexityType") or None,
    )


def _label(entity: Any) -> str | None:
    label = entity.get("label") if isinstance(entity, dict) else entity
    return as_text(label.get("en") if isinstance(label, dict) else label)
