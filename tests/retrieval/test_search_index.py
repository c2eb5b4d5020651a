from __future__ import annotations

from pathlib import Path

import pytest

from spader_slime.errors import DataError
from spader_slime.retrieval.corpus import read_passages
from spader_slime.retrieval.index import TantivyBackend, build_index
from spader_slime.retrieval.passages import Passage


def open_index(folder: Path, *passages: Passage) -> TantivyBackend:
    build_index(passages, folder)
    return TantivyBackend(folder)


def titles(backend: TantivyBackend, query: str, limit: int = 10) -> list[str]:
    return [hit.title for hit in backend.search(query, limit)]


def test_rarer_words_weigh_more(tmp_path: Path) -> None:
    common = [Passage(f"river {n}", "in the lowlands") for n in range(20)]
    backend = open_index(tmp_path / "x", *common, Passage("Loire", "river in the west"))
    assert titles(backend, "river Loire", 1) == ["Loire"]
    assert len(backend) == 21


def test_equal_scores_keep_the_order_of_the_corpus(tmp_path: Path) -> None:
    names = [f"n{(7 * n) % 50}" for n in range(50)]
    backend = open_index(tmp_path / "x", *(Passage(name, "same text") for name in names))
    assert titles(backend, "same", 50) == names


def test_a_prior_multiplies_the_score(tmp_path: Path) -> None:
    village, town = Passage("village", "place in Norway"), Passage("town", "place in Norway", 1.5)
    hits = open_index(tmp_path / "x", village, town).search("Norway", 2)
    assert [hit.title for hit in hits] == ["town", "village"]
    assert hits[0].score / hits[1].score == pytest.approx(1.5, rel=1e-5)


def test_a_prior_does_not_outweigh_a_better_match(tmp_path: Path) -> None:
    big = [Passage(f"big {n}", "in Norway", 2.0) for n in range(10)]
    backend = open_index(tmp_path / "x", *big, Passage("hamlet", "in Telemark, Norway"))
    assert titles(backend, "Telemark Norway", 1) == ["hamlet"]


def test_a_word_said_twice_counts_twice(tmp_path: Path) -> None:
    backend = open_index(tmp_path / "x", Passage("oslo", "norway"), Passage("lima", "peru"))
    once, twice = (backend.search(query, 1)[0].score for query in ("oslo", "OSLO of oslo"))
    assert twice == pytest.approx(2 * once, rel=1e-5)
    assert titles(backend, "lima oslo Lima") == ["lima", "oslo"]
    assert titles(backend, "oslo lima oslo") == ["oslo", "lima"]


def test_words_match_across_case_accents_and_endings(tmp_path: Path) -> None:
    backend = open_index(tmp_path / "x", Passage("São Paulo", "Largest cities"))
    assert titles(backend, "SAO") == titles(backend, "são") == titles(backend, "city") != []


@pytest.mark.parametrize("query", ["", "   ", '"', "the of and", "AND OR NOT (", "^2 ~ * \\"])
def test_a_query_without_words_finds_nothing(tmp_path: Path, query: str) -> None:
    backend = open_index(tmp_path / "x", Passage("The", "of and or not"))
    assert backend.search(query, 5) == []


def test_query_syntax_is_plain_text(tmp_path: Path) -> None:
    backend = open_index(tmp_path / "x", Passage("oslo", "a"), Passage("bergen", "b"))
    assert sorted(titles(backend, "oslo AND bergen")) == ["bergen", "oslo"]
    assert sorted(titles(backend, "title:oslo^3 -bergen")) == ["bergen", "oslo"]
    assert titles(backend, "os*") == []


def test_stored_text_comes_back_unchanged(tmp_path: Path) -> None:
    passage = Passage('  "8½"\t北京 ', "line one\n\nline \\ two\u2028 ")
    hit = open_index(tmp_path / "x", passage).search("北京", 1)[0]
    assert (hit.title, hit.text) == (passage.title, passage.text)


def test_a_half_built_index_is_refused(tmp_path: Path) -> None:
    def cut_short() -> object:
        yield Passage("a", "b")
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        build_index(cut_short(), tmp_path / "x")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no complete index"):
        TantivyBackend(tmp_path / "x")


def test_no_passages_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no passages"):
        build_index([], tmp_path / "x")


def test_reading_qampari_corpus_lines(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(
        '{"id": "1", "contents": "A b", "meta": {"title": "A", "content": "b", "url": "u"}}\n\n'
        '{"id": "2", "contents": "C d", "meta": {"title": "C", "content": "d", "prior": 1.5}}\n'
    )
    assert list(read_passages([path])) == [Passage("A", "b"), Passage("C", "d", 1.5)]


@pytest.mark.parametrize(
    "line",
    ["{", '{"meta": {"title": "A"}}', "[]", '{"meta": {"title": "a", "content": "b", "prior": 0}}'],
)
def test_a_bad_corpus_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"meta": {"title": "A", "content": "b"}}\n' + line)
    with pytest.raises(DataError, match=r"c\.jsonl:2"):
        list(read_passages([path]))
