"""WebQSP: `{"QuestionId", "RawQuestion", "Parses": [{"AnnotatorComment", "Answers": [...]}]}`."""

from __future__ import annotations

import re
from typing import Any

from spader_slime.data.fields import list_of, mapping_of, question_of, text_of
from spader_slime.data.question import Answers, BadRecord, LeftOut, Question

_FREEBASE_ID = re.compile(r"[mg]\.\w+")


def read_webqsp(record: dict[str, Any]) -> Question:
    """One question of WebQSP: gold are the answers of its good and complete parses together.

    Raises:
        BadRecord: no question, or parses or answers that are no list.
        LeftOut: no good and complete parse (the official scorer skips it), or no answers.
    """
    question = question_of(record, "RawQuestion", "ProcessedQuestion")
    parses = _parses(record)
    complete = [parse for parse in parses if _complete(parse)]
    if not complete:
        raise LeftOut("no good and complete parse", f"{len(parses)} parses")
    answers, known = Answers(), set()
    for answer in (a for parse in complete for a in list_of(parse, "Answers")):
        if not isinstance(answer, dict):
            answers.leave_out("not an object")
        elif (name := _name(answer)) not in known:  # parses of one question share answers
            known.add(name)
            _add(answers, name)
    return Question(
        id=text_of(record, "QuestionId"),
        question=question,
        source="webqsp",
        answers=answers.require(),
        official=[_official(parse) for parse in parses],
    )


def _parses(record: dict[str, Any]) -> list[dict[str, Any]]:
    found = list_of(record, "Parses")
    for parse in found:
        if not isinstance(parse, dict):
            raise BadRecord("answers of a wrong shape", f"a parse is {parse!r:.60}")
    return found


def _complete(parse: dict[str, Any]) -> bool:
    """As the official scorer decides; a parse without any comment counts as complete."""
    comment = mapping_of(parse, "AnnotatorComment")
    wanted = (("QuestionQuality", "Good"), ("ParseQuality", "Complete"))
    return all(comment.get(key) in (None, value) for key, value in wanted)


def _add(answers: Answers, name: str) -> None:
    if answers.add([name]) and _FREEBASE_ID.fullmatch(name):
        answers.notes["known by its Freebase id only"] += 1


def _name(answer: dict[str, Any]) -> str:
    return text_of(answer, "EntityName", "AnswerArgument")


def _official(parse: dict[str, Any]) -> list[list[str]]:
    """Of each answer the argument, which the official scorer compares, and the name that a model
    can know."""
    answers = [answer for answer in list_of(parse, "Answers") if isinstance(answer, dict)]
    both = ((text_of(a, "AnswerArgument"), text_of(a, "EntityName")) for a in answers)
    return [[name for name in names if name] for names in both]
