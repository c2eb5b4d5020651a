"""Episodes built by hand: `episode("Oslo", ["Oslo", "Bergen"], answer=["Oslo"])`."""

from __future__ import annotations

from typing import Any

from spader_slime.algorithms.credit import Credit, assign_credit
from spader_slime.config import SpaderConfig
from spader_slime.episode import Document, End, Episode, Turn, TurnKind
from spader_slime.metrics import Graded

GOLD = [["Oslo"], ["Bergen", "Bjørgvin"], ["Tromsø"], ["Bodø"]]
STEP = 2  # sampled tokens per decision step
SEEN = 3  # tokens per observation


def episode(
    *steps: list[str], answer: list[str] | None = None, end: End = End.ANSWERED, **turn: Any
) -> Episode:
    """One search turn per list of names shown, then an answer turn where `answer` is given.

    `turn` sets further fields of every search turn.
    """
    made = Episode(prompt_ids=[1, 2], end=end, answer=answer)
    for names in steps:
        documents = tuple(Document(name, f"About {name}.") for name in names)
        fields = {"queries": ("q",), "calls": 1, "observation_tokens": SEEN} | turn
        span = _sample(made)
        made.turns.append(Turn(span, TurnKind.SEARCH, documents=documents, **fields))
        _observe(made)
    if answer is not None:
        made.turns.append(Turn(_sample(made), TurnKind.ANSWER))
    return made


def _sample(made: Episode) -> tuple[int, int]:
    start = len(made.response_ids)
    made.response_ids += [7] * STEP
    made.loss_mask += [1] * STEP
    made.log_probs += [-0.5] * STEP
    return start, start + STEP


def _observe(made: Episode) -> None:
    made.response_ids += [8] * SEEN
    made.loss_mask += [0] * SEEN
    made.log_probs += [0.0] * SEEN


def credited(*peers: Episode, step: int = 0, **config: Any) -> list[tuple[Episode, Credit]]:
    """The peers with their credits."""
    credits = assign_credit(list(peers), GOLD, SpaderConfig(**config), step)
    return list(zip(peers, credits, strict=True))


def graded(*peers: Episode, **options: Any) -> list[Graded]:
    """The same as the metrics want it."""
    return [Graded(*pair) for pair in credited(*peers, **options)]
