"""What is left of search results when only so many characters may be shown."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spader_slime.agent.cutting import shorten, still_named
from spader_slime.algorithms.normalization import matchable
from spader_slime.episode import Document

Found = list[list[Document]]

names = st.sampled_from(["", "Oslo", "Ålesund", "A b", "1,000"])
words = st.sampled_from(
    [
        "Romania",
        "O'Neill",
        "1,000",
        "U.S.A.",
        "a",
        "twenty-one",
        "soft\u00adly",
        "Ålesund",
        "東京都",
    ]
)
texts = st.lists(st.tuples(words, st.sampled_from([" ", "\n", ", ", "", ". "])), max_size=6).map(
    lambda parts: "".join(word + space for word, space in parts)
)
documents = st.builds(Document, names, texts)
results = st.lists(st.lists(documents, max_size=4), max_size=3)


def size(found: Found) -> int:
    return sum(len(d.title) + len(d.text) for part in found for d in part)


def by_rank(found: Found) -> list[tuple[int, int, Document]]:
    """(rank, query, document), best ranks first."""
    placed = [(r, q, d) for q, part in enumerate(found) for r, d in enumerate(part)]
    return sorted(placed, key=lambda place: place[:2])


@settings(deadline=None)
@given(results, st.integers(0, 80))
def test_never_more_than_allowed_and_best_ranks_first(found: Found, characters: int) -> None:
    shown = shorten(found, characters)
    assert len(shown) == len(found) and size(shown) <= characters
    ours, all_of_them = by_rank(shown), by_rank(found)
    for (*place, kept), (*full_place, full) in zip(ours, all_of_them, strict=False):
        assert place == full_place and kept.title == full.title
    for (*_, kept), (*_, full) in zip(ours[:-1], all_of_them, strict=False):
        assert kept == full  # only the last one is cut


@settings(deadline=None)
@given(results, st.integers(0, 80))
def test_words_are_shown_whole_or_not_at_all(found: Found, characters: int) -> None:
    for kept_part, part in zip(shorten(found, characters), found, strict=True):
        for kept, full in zip(kept_part, part, strict=False):
            assert full.text.startswith(kept.text)
            assert matchable(full.text).startswith(matchable(kept.text))
            assert kept.text or not full.text


@settings(deadline=None)
@given(results)
def test_more_room_never_shows_less(found: Found) -> None:
    steps = [shorten(found, characters) for characters in range(size(found) + 2)]
    assert steps[-1] == steps[-2] == found and not any(size([part]) for part in steps[0])
    for less, more in pairwise(steps):
        for less_part, more_part in zip(less, more, strict=True):
            assert len(less_part) <= len(more_part)
            for a, b in zip(less_part, more_part, strict=False):
                assert a.title == b.title and b.text.startswith(a.text)


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [
        ("Romania", 5, None),
        ("in Romania", 9, "in"),
        ("in Romania", 10, "in Romania"),
        ("in Romania ", 10, "in Romania"),
        ("by O'Neill", 5, "by"),
        ("of 1,000", 4, "of"),
        ("the U.S.A. is", 8, "the"),
        ("ab soft\u00adly", 7, "ab"),
        ("東京都", 2, "東京"),
        ("東Romania", 4, "東"),
    ],
)
def test_where_texts_are_cut(text: str, room: int, shown: str | None) -> None:
    (kept,) = shorten([[Document("T", text)]], room + 1)
    assert kept == ([] if shown is None else [Document("T", shown)])


def test_queries_share_the_room_rank_by_rank() -> None:
    a, b, c = (Document(name, "1234 6789") for name in "abc")
    assert shorten([[a, b], [c]], 20) == [[a], [c]]
    assert shorten([[a, b], [c]], 26) == [[a, Document("b", "1234")], [c]]
    assert shorten([[a, b], [c]], 16) == [[a], [Document("c", "1234")]]
    assert shorten([[], [a]], 9) == [[], [Document("a", "1234")]]
    assert shorten([], 9) == []


def test_queries_whose_results_were_all_cut_are_not_named() -> None:
    found = [[Document("a", "b")], [Document("c", "d")], []]
    assert still_named(["q", "r", "s"], found, [found[0], [], []]) == (["q", "s"], [found[0], []])
