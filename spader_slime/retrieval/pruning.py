"""The best passages for some words, without scoring every passage that holds one of them.

tantivy's own pruning can't be reached from Python, so this is MaxScore (Turtle and Flood, 1995) on
top of its queries. Words are ordered by the most that each adds to a score anywhere in the index.
Those at the low end which together can't lift a passage among the best are *optional*: they add to
the score of passages that hold another word, and their own lists are not gone through. Which words
these are depends on the score of the last of the best, which is guessed, then checked: the result
is that of a plain search, always.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import accumulate, islice, takewhile

from tantivy import DocAddress, Occur, Query, Schema, Searcher

MAX_TERMS = 64  # distinct words of a query that are looked up
_REMEMBERED = 50_000  # words whose highest score is kept
_ROUNDING = 1e-5  # relative, of scores: tantivy adds float32 numbers

Found = list[tuple[float, DocAddress]]


class BestMatches:
    """Searches one field of an index by words, BM25; safe to call from several threads.

    Args:
        prior: field that multiplies the scores ("" for none: only then words are optional).
    """

    def __init__(self, searcher: Searcher, schema: Schema, field: str, prior: str = "") -> None:
        self._searcher, self._schema, self._field = searcher, schema, field
        self._prior = prior or None
        self._highest = lru_cache(_REMEMBERED)(self._find_highest)

    def search(self, terms: Counter[str], limit: int) -> Found:
        """At most `limit` hits, best first. A word that is said twice counts twice."""
        words = list(islice(terms.items(), MAX_TERMS))
        if self._prior:
            return self._hits(_any_of([self._word(*word) for word in words]), limit)
        weighed = [(self._highest(term) * count, term, count) for term, count in words]
        return self._pruned(sorted(word for word in weighed if word[0] > 0), limit)

    def _pruned(self, words: list[tuple[float, str, int]], limit: int) -> Found:
        """Words with the most they can add, lowest first."""
        if not words:
            return []
        queries = [self._word(term, count) for _, term, count in words]
        sums = list(accumulate(most for most, _, _ in words[:-1]))
        optional = _below(sums, words[-1][0])  # the last hit scores about as the rarest word does
        found = self._hits(_with_optional(queries, optional), limit)
        last = found[-1][0] * (1 - _ROUNDING) if len(found) == limit else 0.0
        if optional and sums[optional - 1] >= last:
            found = self._hits(_with_optional(queries, _below(sums, last)), limit)
        return found

    def _hits(self, query: Query, limit: int) -> Found:
        found = self._searcher.search(query, limit, count=False, weight_by_field=self._prior)
        return found.hits

    def _word(self, term: str, count: int) -> Query:
        query = Query.term_query(self._schema, self._field, term, "freq")
        return query if count == 1 else Query.boost_query(query, count)

    def _find_highest(self, term: str) -> float:
        found = self._hits(self._word(term, 1), 1)
        return found[0][0] if found else 0.0


def _below(sums: list[float], score: float) -> int:
    """How many words, lowest first, can't reach `score` together."""
    return sum(1 for _ in takewhile(lambda most: most < score, sums))


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
