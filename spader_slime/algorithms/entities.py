"""Which gold entities does a text name? All aliases of all entities in one pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ahocorasick_rs import BytesAhoCorasick

from spader_slime.algorithms.gold import as_gold
from spader_slime.algorithms.normalization import POSSESSIVE, SEPARATOR, matchable, pattern
from spader_slime.episode import Document
from spader_slime.errors import DataError

CACHED_TEXTS = 2048


class EntityMatcher:
    """Finds gold entities in text by any alias, on whole tokens of normalized text.

    Overlapping names all count. Scripts written without spaces match as substrings. A possessive
    names its owner, too ("Lennon's" shows Lennon). Each distinct text is normalized and searched
    once: make one matcher per question and give it the observations of all peers.

    Args:
        gold: anything `gold.as_gold` takes; entities are numbered in that order. An alias that
            normalizes to nothing ("!!!") is never found.
        cached_texts: distinct texts whose result is kept, the oldest go first.

    Raises:
        DataError: bad gold.
    """

    def __init__(self, gold: Any, cached_texts: int = CACHED_TEXTS) -> None:
        entities = as_gold(gold)
        self.num_gold = len(entities)
        owners: dict[bytes, set[int]] = {}
        for entity, aliases in enumerate(entities):
            for alias in aliases:
                owners.setdefault(pattern(alias), set()).add(entity)
        owners.pop(b"", None)
        self._owners = list(owners.values())
        self._reach = max(map(len, owners), default=0)
        self._automaton = BytesAhoCorasick(list(owners)) if owners else None
        self._cached_texts, self._cache = cached_texts, dict[str, frozenset[int]]()

    def find(self, text: str) -> set[int]:
        """Numbers of the gold entities that `text` names.

        Raises:
            DataError: `text` is no string.
        """
        found = self._cache.get(text) if isinstance(text, str) else None
        if found is None:
            found = self._search(text)
            if len(self._cache) >= self._cached_texts > 0:
                del self._cache[next(iter(self._cache))]
            if self._cached_texts > 0:
                self._cache[text] = found
        return set(found)

    def find_in_documents(self, documents: Iterable[Document]) -> set[int]:
        """Union over the documents' titles and texts, no name reaching across their borders."""
        found: set[int] = set()
        for document in documents:
            found |= self.find(f"{document.title}{SEPARATOR}{document.text}")
        return found

    def _search(self, text: str) -> frozenset[int]:
        if not isinstance(text, str):
            raise DataError(f"text must be a string, not {type(text).__name__}")
        if self._automaton is None:
            return frozenset()
        haystack = self._with_owners(matchable(text))
        hits = self._automaton.find_matches_as_indexes(haystack, overlapping=True)
        return frozenset().union(*[self._owners[which] for which in {hit[0] for hit in hits}])

    def _with_owners(self, tokens: bytes) -> bytes:
        """Append, for each possessive, the tokens before it up to its owner without the s.

        "the lennons band" stays whole, and " lennon " can be found behind it: as far back as the
        longest alias reaches, and fenced, so that nothing matches across.
        """
        parts = tokens.split(POSSESSIVE)
        if len(parts) == 1:
            return tokens
        joined, place, tails = b"".join(parts), 0, [b""]
        for part in parts[:-1]:
            place += len(part)
            tails.append(joined[max(0, place - self._reach) : place] + b" ")
        return joined + SEPARATOR.encode().join(tails)
