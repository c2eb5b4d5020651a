from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spader_slime.retrieval.budget import share
from spader_slime.retrieval.passages import Hit

words = st.text(alphabet="ab \n", max_size=30)
hits = st.builds(Hit, words, words, st.just(1.0))
results = st.lists(st.lists(hits, max_size=5), max_size=5)


def size(shown: list[list[Hit]]) -> int:
    return sum(len(hit.title) + len(hit.text) for row in shown for hit in row)


def test_the_budget_is_filled_rank_by_rank() -> None:
    one, two = ([Hit(f"{q}{r}", "x" * 8, 1.0) for r in range(3)] for q in "ab")
    shown = share([one, two], max_chars=30)
    assert [[hit.title for hit in row] for row in shown.hits] == [["a0", "a1"], ["b0"]]
    assert shown.note is not None and "30 characters" in shown.note and "3 of 6" in shown.note


def test_the_last_document_is_cut_at_a_word() -> None:
    shown = share([[Hit("T", "one two three", 1.0)]], max_chars=9)
    assert shown.hits == [[Hit("T", "one two", 1.0)]]
    assert share([[Hit("T", "one two three", 1.0)]], max_chars=8).hits[0][0].text == "one two"
    assert share([[Hit("T", "one two three", 1.0)]], max_chars=7).hits[0][0].text == "one"


def test_a_document_of_which_no_word_fits_is_left_out() -> None:
    shown = share([[Hit("Title", "longword", 1.0)]], max_chars=8)
    assert shown.hits == [[]] and shown.note is not None


@given(results, st.integers(1, 200))
def test_never_over_the_budget_and_a_note_exactly_when_cut(
    found: list[list[Hit]], max_chars: int
) -> None:
    shown = share(found, max_chars)
    assert size(shown.hits) <= max_chars
    assert (shown.note is None) == (size(found) <= max_chars)
    for row, kept in zip(found, shown.hits, strict=True):
        assert [hit.title for hit in kept] == [hit.title for hit in row[: len(kept)]]
        assert all(full.text.startswith(cut.text) for full, cut in zip(row, kept, strict=False))


@given(results)
def test_without_a_limit_everything_is_shown(found: list[list[Hit]]) -> None:
    shown = share(found, None)
    assert shown.hits == found and shown.note is None
