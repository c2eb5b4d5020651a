"""The official scorers of the four benchmarks, as far as they are public.

They score different things, so their numbers must not be compared across benchmarks.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence

from spader_slime.algorithms.gold import Gold
from spader_slime.algorithms.scoring import AnswerScore
from spader_slime.errors import DataError
from spader_slime.scorings.mintaka import score_mintaka
from spader_slime.scorings.reference import Reference
from spader_slime.scorings.shares import answer_score

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_DELETED = str.maketrans("", "", string.punctuation)


def score_official(predicted: Sequence[str] | None, reference: Reference) -> AnswerScore:
    """The score of the benchmark that `reference.source` names ("webqsp", "webqsp_test", ...).

    Raises:
        DataError: that benchmark's scorer is not here.
    """
    name = re.split(r"[\W_]", reference.source.lower())[0]
    if name not in OFFICIAL:
        known = ", ".join(OFFICIAL)
        raise DataError(f"no official scoring for source {reference.source!r}, only for {known}")
    return OFFICIAL[name](predicted, reference)


def score_qampari(predicted: Sequence[str] | None, reference: Reference) -> AnswerScore:
    """Answers named over predictions made: a second name of one answer costs precision.

    SQuAD's normalization; predictions that are the same strings count once. The first alias (in
    order of the file) that equals a prediction decides which answer it names; an alias that two
    answers share belongs to the later one. Nothing predicted: 0 (the original divides by 0).
    """
    gold = reference.parses[0]
    owner = {alias: entity for entity, aliases in enumerate(gold) for alias in aliases}
    first: dict[str, int] = {}
    for alias, entity in owner.items():
        first.setdefault(squad_form(alias), entity)
    given = set(predicted or ())
    named = {first[form] for form in map(squad_form, given) if form in first}
    precision = len(named) / len(given) if given else 0.0
    return answer_score(precision, len(named) / len(gold), len(given), len(gold))


def squad_form(text: str) -> str:
    """Lower case, ASCII punctuation deleted, articles gone anywhere, spaces collapsed."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_DELETED)).split())


def score_quest(predicted: Sequence[str] | None, reference: Reference) -> AnswerScore:
    """Sets of document titles, compared as strings: case and disambiguation count."""
    titles = {name for entity in reference.parses[0] for name in entity[:1]}
    given = set(predicted or ())
    right = len(titles & given)
    precision = right / len(given) if given else 0.0
    return answer_score(precision, right / len(titles), len(given), len(titles))


def score_webqsp(predicted: Sequence[str] | None, reference: Reference) -> AnswerScore:
    """The parse with the best F1 of all parses, strings compared as they are.

    The original compares Freebase ids; here an answer's name is as good as its id. An empty list
    has precision 1 and recall 0, or 1 and 1 where a parse has no answer; no answer at all is 0,
    as a question that is missing from the predictions.
    """
    if predicted is None:
        return answer_score(0.0, 0.0, 0, max(map(len, reference.parses)))
    scores = [_parse_score(list(predicted), parse) for parse in reference.parses]
    return max(scores, key=lambda score: score.f1)


def _parse_score(given: list[str], parse: Gold) -> AnswerScore:
    if not parse:
        return answer_score(float(not given), 1.0, len(given), 0, f1=float(not given))
    if not given:
        return answer_score(1.0, 0.0, 0, len(parse))
    names = {name for entity in parse for name in entity}
    right = sum(any(name in given for name in entity) for entity in parse)
    wrong = sum(name not in names for name in given)
    precision = right / (right + wrong) if right else 0.0
    return answer_score(precision, right / len(parse), len(given), len(parse))


OFFICIAL: dict[str, Callable[[Sequence[str] | None, Reference], AnswerScore]] = {
    "qampari": score_qampari,
    "quest": score_quest,
    "mintaka": score_mintaka,
    "webqsp": score_webqsp,
}
