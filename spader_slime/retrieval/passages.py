"""What is searched, and what is found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Passage:
    """One searchable document.

    `prior` multiplies its BM25 score (1.0: BM25 alone); at least 1.
    """

    title: str
    text: str
    prior: float = 1.0


@dataclass(frozen=True)
class Hit:
    """A passage found by a query; `score` is comparable within one query only."""

    title: str
    text: str
    score: float
