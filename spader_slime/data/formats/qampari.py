"""QAMPARI: `{"qid", "question_text", "answer_list": [{"answer_text", "aliases", ...}]}`."""

from __future__ import annotations

from typing import Any

from spader_slime.data.fields import list_of, names_of, question_of, text_of
from spader_slime.data.question import Answers, Parses, Question, as_text


def read_qampari(record: dict[str, Any]) -> Question:
    """One line of QAMPARI; an answer's own text leads its aliases.

    Raises:
        BadRecord: no question, or answers that are no list.
        LeftOut: no answers.
    """
    question = question_of(record, "question_text", "question")
    listed = [a if isinstance(a, dict) else {"answer_text": a} for a in _answers(record)]
    answers, tiers = Answers(), []
    for answer in listed:
        if answers.add(_names(answer)):
            tiers.append(as_text(answer.get("tier")) or None)
    return Question(
        id=text_of(record, "qid", "id"),
        question=question,
        source="qampari",
        answers=answers.require(),
        official=_official(listed),
        tiers=tuple(tiers) if any(tiers) else None,
    )


def _answers(record: dict[str, Any]) -> list[Any]:
    return list_of(record, "answer_list", "answers")


def _names(answer: dict[str, Any]) -> list[Any]:
    own = answer.get("answer_text")
    return [own, *(alias for alias in names_of(answer.get("aliases")) if alias != own)]


def _official(listed: list[dict[str, Any]]) -> Parses:
    """Aliases as they are in the file, which is all that the official scorer looks at.

    It keeps one alias list per answer text, the last one; the others stay in the denominator. An
    answer without aliases is given its text.
    """
    texts = [repr(answer.get("answer_text")) for answer in listed]
    last = {text: place for place, text in enumerate(texts)}
    known = [_text_aliases(answer) for answer in listed]
    return [[known[i] if last[text] == i else [] for i, text in enumerate(texts)]]


def _text_aliases(answer: dict[str, Any]) -> list[str]:
    aliases = [text for alias in names_of(answer.get("aliases")) if (text := as_text(alias))]
    return aliases or [text for text in [as_text(answer.get("answer_text"))] if text]
