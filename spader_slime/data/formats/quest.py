"""QUEST: `{"query", "docs": ["Title", ...], "metadata": {"template", ...}}`."""

from __future__ import annotations

import re
from typing import Any

from spader_slime.data.fields import list_of, mapping_of, question_of, text_of
from spader_slime.data.question import Answers, Question, as_text

_DISAMBIGUATION = re.compile(r"\s*\([^()]*\)\s*$")  # "Hamlet (1996 film)"


def read_quest(record: dict[str, Any]) -> Question:
    """One line of QUEST: gold are document titles, with the bare name as an alias.

    Raises:
        BadRecord: no query, or docs that are no list.
        LeftOut: no docs.
    """
    question, titles = question_of(record, "query"), list_of(record, "docs")
    answers = Answers()
    for title in titles:
        answers.add(names_of_title(title))
    return Question(
        id=text_of(record, "id", "qid"),
        question=question,
        source="quest",
        answers=answers.require(),
        official=[[[text] for title in dict.fromkeys(map(as_text, titles)) if (text := title)]],
        kind=text_of(mapping_of(record, "metadata"), "template") or None,
    )


def names_of_title(title: Any) -> list[Any]:
    """A title and, where it ends in a disambiguation, the name without it."""
    bare = _DISAMBIGUATION.sub("", title) if isinstance(title, str) else title
    return [title] if bare in (title, "") else [title, bare]
