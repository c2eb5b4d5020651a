"""How hard a world is: what simple searchers see of the gold answers, without any model."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import mean

from spader_slime.local.world.records import Question

Search = Callable[[str], Sequence[tuple[str, str]]]  # query -> (title, text) of its hits
NameFinder = Callable[[str], list[str]]  # text -> the known names in it, in order
Shown = Callable[[str], list[str]]  # query -> the known names in its hits, in order

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Difficulty:
    """Mean share of a question's gold answers that was shown, in [0, 1].

    Attributes:
        plain: by one query, the subject itself; `plain_head` and `plain_tail` by tier.
        random_clues: by the plain query, then random names met on the way.
        oracle: the same, each time with the name that shows most new gold answers.
        searches: how many queries the last two may use.
    """

    plain: float
    plain_head: float
    plain_tail: float
    random_clues: float
    oracle: float
    searches: int


def name_finder(names: Iterable[str]) -> NameFinder:
    """Finds whole-word occurrences; the longest name wins where several begin."""
    by_first_word: dict[str, list[str]] = defaultdict(list)
    for name in sorted(set(names), key=lambda name: (-len(name), name)):
        by_first_word[_WORD.findall(name)[0]].append(name)
    beginnings = {
        word: re.compile("(?:" + "|".join(map(re.escape, rest)) + r")\b")
        for word, rest in by_first_word.items()
    }

    def find(text: str) -> list[str]:
        found, end = [], 0
        for word in _WORD.finditer(text):
            pattern = beginnings.get(word[0]) if word.start() >= end else None
            match = pattern.match(text, word.start()) if pattern else None
            if match:
                found.append(match[0])
                end = match.end()
        return found

    return find


def measure(
    questions: Sequence[Question], finder: NameFinder, search: Search, searches: int, seed: int
) -> Difficulty:
    """Send the three searchers after every question."""
    rng = random.Random(f"probe-{seed}")
    shown = _shown(finder, search)
    plain = [_Walk(question, shown) for question in questions]
    shares = [[walk.share(tier) for walk in plain] for tier in ("", "head", "tail")]
    by_chance = [_run(_Walk(q, shown), searches, rng) for q in questions]
    best = [_run(_Walk(q, shown), searches, None) for q in questions]
    total, head, tail, chance, oracle = (
        round(mean(values), 4) for values in (*shares, by_chance, best)
    )
    return Difficulty(total, head, tail, chance, oracle, searches)


def _shown(finder: NameFinder, search: Search) -> Shown:
    @cache
    def shown(query: str) -> list[str]:
        return finder("\n".join(f"{title}\n{text}" for title, text in search(query)))

    return shown


class _Walk:
    """One searcher on one question: what it has seen, and the clues it has not followed."""

    def __init__(self, question: Question, shown: Shown) -> None:
        self._question, self._shown = question, shown
        self._subject = question.metadata["subject"]
        self._gold = {entity.name for entity in question.answers}
        self._seen: set[str] = set()
        self.clues: dict[str, None] = {self._subject: None}
        self.follow(self._subject)

    def follow(self, clue: str) -> None:
        named = self._named_by(clue)
        self._seen |= self._gold.intersection(named)
        del self.clues[clue]
        self.clues.update((name, None) for name in named if name not in (clue, self._subject))

    def gain(self, clue: str) -> int:
        """New gold answers that following the clue would show."""
        return len(self._gold.intersection(self._named_by(clue)) - self._seen)

    def share(self, tier: str = "") -> float:
        gold = {entity.name for entity in self._question.answers if tier in ("", entity.tier)}
        return len(self._seen & gold) / len(gold)

    def _named_by(self, clue: str) -> list[str]:
        query = clue if clue == self._subject else f"{clue} {self._subject}"
        return self._shown(query)


def _run(walk: _Walk, searches: int, rng: random.Random | None) -> float:
    for _ in range(searches - 1):
        if not walk.clues:
            break
        clues = list(walk.clues)
        walk.follow(rng.choice(clues) if rng else max(clues, key=walk.gain))
    return walk.share()
