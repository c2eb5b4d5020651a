"""What a script without any model scores: the plain first query, answered with what it shows."""

from __future__ import annotations

from statistics import mean

from spader_slime.algorithms.answers import score_answer
from spader_slime.local.data_source import read_prompts
from spader_slime.local.world.build import WorldFiles
from spader_slime.retrieval.index import TantivyBackend


def plain_query(files: WorldFiles, split: str, top_k: int) -> dict[str, float]:
    """Search once for the question's subject and answer with the titles of all `top_k` documents.

    Returns:
        Means of recall, precision and f1 over the questions of `split`, each in [0, 1].
    """
    search = TantivyBackend(files.index).search
    questions = read_prompts(str(files.questions(split)))
    scores = [
        score_answer([hit.title for hit in search(q.metadata["subject"], top_k)], q.label)
        for q in questions
    ]
    return {name: mean(getattr(s, name) for s in scores) for name in ("recall", "precision", "f1")}
