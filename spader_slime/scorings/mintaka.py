"""Mintaka's official scoring of text answers (its mode `text`)."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from spader_slime.algorithms.scoring import AnswerScore
from spader_slime.scorings.reference import Reference
from spader_slime.scorings.shares import answer_score


def score_mintaka(predicted: Sequence[str] | None, reference: Reference) -> AnswerScore:
    """One text against one text: the labels of all answers with spaces between, in file order.

    F1, precision and recall are of words as they are written, case and commas included. Exact
    match is true when the gold tokens, lower case, stand in the prediction one after the other.
    """
    given, gold = " ".join(predicted or ()), _gold_text(reference)
    given_words, gold_words = given.split(), gold.split()
    same = (Counter(given_words) & Counter(gold_words)).total()
    return answer_score(
        precision=same / len(given_words) if given_words else 0.0,
        recall=same / len(gold_words) if gold_words else 0.0,
        num_predicted=len(predicted or ()),
        num_gold=len(reference.gold),
        exact=_within(tokens(gold), tokens(given)),
    )


def _gold_text(reference: Reference) -> str:
    return " ".join(entity[0] for entity in reference.parses[0] if entity)


def _within(wanted: list[str], given: list[str]) -> bool:
    last = len(given) - len(wanted)
    return bool(given) and any(given[i : i + len(wanted)] == wanted for i in range(last + 1))


def tokens(text: str) -> list[str]:
    """Runs of letters, digits and marks, and every other visible character, lower case, NFD."""
    pieces: list[str] = []
    for kind, run in groupby(unicodedata.normalize("NFD", text), _kind):
        piece = "".join(run)
        pieces += {"word": [piece], "sign": list(piece), "blank": []}[kind]
    return [piece.lower() for piece in pieces]


def _kind(char: str) -> str:
    category = unicodedata.category(char)[0]
    if category in "LNM":
        return "word"
    return "blank" if category in "ZC" else "sign"
