"""The pruned search finds what a plain one finds."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from tantivy import Index, Occur, Query, Searcher

from spader_slime.retrieval import pruning
from spader_slime.retrieval.index import TantivyWriter, _schema
from spader_slime.retrieval.passages import Passage
from spader_slime.retrieval.pruning import BestMatches, Found

WORDS = [f"{a}{b}q" for a in "bdfgkmprt" for b in "aeiou"]  # no stop word, nothing to stem


@pytest.fixture(scope="module", params=[1, 4], ids=["one segment", "four segments"])
def searcher(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    """3,000 passages, whose words are as unequal as those of a language."""
    folder, draw = tmp_path_factory.mktemp("index"), random.Random(1)
    weights = [1 / rank for rank in range(1, len(WORDS) + 1)]
    writer = TantivyWriter(folder)
    for number in range(3000):
        text = " ".join(draw.choices(WORDS, weights, k=draw.randint(3, 12)))
        writer.add(Passage("", text))
        if (number + 1) % (3000 // request.param) == 0:
            writer.commit()
    writer.finish()
    found = Index(_schema(), path=str(folder)).searcher()
    assert found.num_segments == request.param
    return found


def plain(searcher: Searcher, terms: Counter[str], limit: int) -> Found:
    words = [
        Query.boost_query(Query.term_query(_schema(), "contents", term, "freq"), count)
        for term, count in terms.items()
    ]
    query = Query.boolean_query([(Occur.Should, word) for word in words])
    return searcher.search(query, limit, count=False).hits


def queries() -> list[tuple[Counter[str], int]]:
    draw = random.Random(2)
    chosen = [draw.choices([*WORDS, "nowhere"], k=draw.randint(1, 8)) for _ in range(400)]
    return [(Counter(words), draw.choice([1, 5, 50, 4000])) for words in chosen]


def scores(found: Found) -> list[float]:
    return [score for score, _ in found]


@pytest.mark.parametrize("jump", [0.0, pruning._JUMP], ids=["as many as may be", "cheapest"])
def test_it_finds_what_a_plain_search_finds(
    searcher: Searcher, jump: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "_JUMP", jump)
    best = BestMatches(searcher, _schema(), "contents")
    for terms, limit in queries():
        found, expected = best.search(terms, limit), plain(searcher, terms, limit)
        assert scores(found) == pytest.approx(scores(expected), rel=1e-5)
        for (score, place), (other, there) in zip(found, expected, strict=True):
            # equal but for rounding: either may come first
            assert place == there or scores(expected).count(pytest.approx(score, rel=1e-5)) > 1
            assert score == pytest.approx(other, rel=1e-5)


def test_words_are_optional_and_wrong_guesses_are_noticed(
    searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "_JUMP", 0.0)
    asked: list[int] = []
    build = pruning._with_optional

    def counted(words: list[Query], optional: int) -> Query:
        asked.append(optional)
        return build(words, optional)

    monkeypatch.setattr(pruning, "_with_optional", counted)
    best = BestMatches(searcher, _schema(), "contents")
    searches = queries()
    for terms, limit in searches:
        best.search(terms, limit)
    assert sum(optional > 0 for optional in asked) > 100
    assert len(asked) > len(searches) + 10  # second passes
    assert len(asked) < 2 * len(searches)


def test_no_word_is_known(searcher: Searcher) -> None:
    assert BestMatches(searcher, _schema(), "contents").search(Counter(["nowhere"]), 5) == []


def test_long_queries_are_cut_not_refused(tmp_path: Path) -> None:
    writer = TantivyWriter(tmp_path)
    for number in range(300):
        writer.add(Passage("", f"w{number} common"))
    writer.finish()
    best = BestMatches(Index(_schema(), path=str(tmp_path)).searcher(), _schema(), "contents")
    words = Counter([f"w{number}" for number in range(300)])
    assert len(best.search(words, 1000)) == pruning.MAX_TERMS
    assert len(best.search(Counter({"common": 1, **words}), 1000)) == 300


def test_a_common_word_is_optional_and_not_where_that_costs_more() -> None:
    common, rare = pruning._Word(1.0, 9000, 1, "a"), pruning._Word(5.0, 10, 1, "c")
    middle = pruning._Word(2.0, 8000, 1, "b")
    assert pruning._cheapest([common, rare], 5.0) == 1
    assert pruning._cheapest([common, rare], 1.0) == 0  # a passage with it alone may be as good
    assert pruning._cheapest([common, middle, rare], 5.0) == 2
    assert pruning._cheapest([common, middle, rare], 2.5) == 0  # 8,010 jumps for 9,000 steps
    assert pruning._cheapest([rare], 9.0) == 0
