"""Reading and scoring as the SPADER authors' evaluation does.

Facts from the public repository KhanCold/spader, `run_test/utils/metrics.py`.
"""

from __future__ import annotations

import ast
import json
import re
import string
from collections.abc import Sequence
from dataclasses import replace

from spader_slime.algorithms.scoring import AnswerScore
from spader_slime.scorings.reference import Reference
from spader_slime.scorings.shares import answer_score, recall_at

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_QUOTES = str.maketrans({"’": "'", "‘": "'", "”": '"', "“": '"'})
_DELETED = str.maketrans("", "", string.punctuation + "—–‐")


def authors_form(text: str) -> str:
    """Lower case; ASCII punctuation, two dashes and the hyphen deleted; articles gone anywhere."""
    bare = text.lower().translate(_QUOTES).translate(_DELETED)
    return " ".join(_ARTICLE.sub(" ", bare).split())


def read_answers(turns: Sequence[str]) -> list[str] | None:
    """The last closed answer block of all the assistant's turns, thinking included.

    What is no readable list is one answer. None: no block, or a blank one.
    """
    blocks = _ANSWER.findall("\n".join(turns))
    content = blocks[-1].strip() if blocks else ""
    if not content:
        return None
    listed = _listed(content) if content[0] == "[" and content[-1] == "]" else None
    return [content] if listed is None else [str(x) for x in listed if str(x).strip()]


def _listed(content: str) -> list[object] | None:
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(content)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return found if isinstance(found, list) else None
    return None


def score_authors(predicted: Sequence[str] | None, reference: Reference) -> AnswerScore:
    """Precision over different predictions, recall over gold entities.

    Gold entities with the same set of normalized aliases are one. A prediction counts as right
    whichever entity it names, also when another one named it before. No answer scores 0.
    """
    entities = {frozenset(map(authors_form, aliases)) - {""} for aliases in reference.gold}
    entities.discard(frozenset())
    forms = [form for form in map(authors_form, predicted or ()) if form]
    names, known = set(forms), frozenset[str]().union(*entities)
    found = sum(bool(names & aliases) for aliases in entities)
    score = answer_score(
        precision=len(names & known) / len(names) if names else 0.0,
        recall=found / len(entities) if entities else 0.0,
        num_predicted=len(names),
        num_gold=len(entities),
    )
    repeated = len(predicted or ()) - len({name.strip().lower() for name in predicted or ()})
    return replace(score, recall_at=recall_at(found, len(entities)), repeated=repeated)
