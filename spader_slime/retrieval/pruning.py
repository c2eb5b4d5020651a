"""The best passages for some words, without scoring every passage that holds one of them.

tantivy's own pruning can't be reached from Python, so this is MaxScore (Turtle and Flood, 1995) on
top of its queries. Words are ordered by the most that each adds to a score anywhere in the index.
Those at the low end which together can't lift a passage among the best are *optional*: they add to
the score of passages that hold another word, and their own lists are not gone through. Which words
may be depends on the score of the last of the best, which is guessed, then checked: the result is
that of a plain search, always. As many of them are optional as make the search cheapest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, islice
from typing import NamedTuple

from tantivy import DocAddress, Occur, Query, Schema, Searcher

MAX_TERMS = 64  # distinct words of a query that are looked up
_REMEMBERED = 50_000  # words whose highest score is kept
_ROUNDING = 1e-5  # relative, of scores: tantivy adds float32 numbers
_JUMP = 3.0  # cost of looking up one passage in an optional word's list; 1: of going past one

Found = list[tuple[float, DocAddress]]


class _Word(NamedTuple):
    """A word of a query: the most it adds to a score, passages that hold it, times it is said."""

    most: float
    passages: int
    said: int
    term: str


class BestMatches:
    """Searches one field of an index by words, BM25; safe to call from several threads.

    Args:
        prior: field that multiplies the scores ("" for none: only then words are optional).
    """

    def __init__(self, searcher: Searcher, schema: Schema, field: str, prior: str = "") -> None:
        self._searcher, self._schema, self._field = searcher, schema, field
        self._prior = prior or None
        self._facts = lru_cache(_REMEMBERED)(self._find_facts)

    def search(self, terms: Counter[str], limit: int) -> Found:
        """At most `limit` hits, best first. A word that is said twice counts twice."""
        words = list(islice(terms.items(), MAX_TERMS))
        if self._prior:
            return self._hits(_any_of([self._query(*word) for word in words]), limit)
        return self._pruned(sorted(filter(None, (self._known(*word) for word in words))), limit)

    def _pruned(self, words: list[_Word], limit: int) -> Found:
        """Hits for words in ascending order."""
        if not words:
            return []
        queries = [self._query(word.term, word.said) for word in words]
        optional = _cheapest(words, words[-1].most)  # the last hit scores about as the rarest word
        found = self._hits(_with_optional(queries, optional), limit)
        last = found[-1][0] * (1 - _ROUNDING) if len(found) == limit else 0.0
        if optional and sum(word.most for word in words[:optional]) >= last:
            found = self._hits(_with_optional(queries, _cheapest(words, last)), limit)
        return found

    def _hits(self, query: Query, limit: int) -> Found:
        found = self._searcher.search(query, limit, count=False, weight_by_field=self._prior)
        return found.hits

    def _query(self, term: str, count: int) -> Query:
        query = Query.term_query(self._schema, self._field, term, "freq")
        return query if count == 1 else Query.boost_query(query, count)

    def _known(self, term: str, count: int) -> _Word | None:
        most, passages = self._facts(term)
        return _Word(most * count, passages, count, term) if passages else None

    def _find_facts(self, term: str) -> tuple[float, int]:
        """The highest score that a word alone gives, and how many passages hold it."""
        found = self._hits(self._query(term, 1), 1)
        return (found[0][0] if found else 0.0), self._searcher.doc_freq(self._field, term)


def _cheapest(words: Sequence[_Word], score: float) -> int:
    """How many words to make optional, of those that can't reach `score` together."""
    below = sum(most < score for most in accumulate(word.most for word in words[:-1]))
    left = [*accumulate(word.passages for word in reversed(words))][::-1]  # in lists gone through
    return min(range(below + 1), key=lambda optional: left[optional] * (1 + _JUMP * optional))


def _any_of(queries: list[Query]) -> Query:
    return Query.boolean_query([(Occur.Should, query) for query in queries])


def _with_optional(queries: list[Query], optional: int) -> Query:
    """Passages that hold any word but the first `optional` ones, which add to scores only.

    Nested one by one: tantivy jumps within the list of one optional word, but goes through all of
    the lists of several.
    """
    query = _any_of(queries[optional:])
    for word in reversed(queries[:optional]):
        query = Query.boolean_query([(Occur.Must, query), (Occur.Should, word)])
    return query
