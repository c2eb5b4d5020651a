from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import slow_text
from hypothesis import given
from hypothesis import strategies as st

from spader_slime.algorithms.entities import EntityMatcher
from spader_slime.episode import Document
from spader_slime.errors import DataError

WORDS = ["new", "York", "city", "The", "a", "Lennon's", "Lennon", "U.S.", "us", "1,000", "James'"]
ODD = [
    "北京",
    "京都",
    "é",
    "e\u0301",
    "s",
    "'s",
    "’s",
    ".",
    ",",
    "-",
    "\x1e",
    "ไทย",
    "x's's",
    "C++",
]
phrases = st.lists(st.sampled_from(WORDS + ODD), min_size=1, max_size=4)
joined = st.builds(lambda parts, glue: glue.join(parts), phrases, st.sampled_from([" ", "", "-"]))
texts = st.builds(" ".join, st.lists(joined, max_size=8))
names = joined.filter(lambda name: bool(name.strip()))
golds = st.lists(st.lists(names, min_size=1, max_size=3), min_size=1, max_size=5)


@given(texts, golds)
def test_found_equals_trying_every_alias_at_every_place(text: str, gold: list[list[str]]) -> None:
    assert EntityMatcher(gold).find(text) == slow_text.find(text, gold)


@given(st.lists(texts, max_size=5), golds, st.integers(0, 3))
def test_the_cache_changes_nothing(seen: list[str], gold: list[list[str]], size: int) -> None:
    matcher = EntityMatcher(gold, cached_texts=size)
    for text in seen + seen:
        assert matcher.find(text) == EntityMatcher(gold).find(text)


@given(golds, st.randoms())
def test_the_order_of_entities_only_renames_them(gold: list[list[str]], draw: Any) -> None:
    text = " and ".join(aliases[0] for aliases in gold)
    order = list(range(len(gold)))
    draw.shuffle(order)
    found = EntityMatcher(gold).find(text)
    shuffled = EntityMatcher([gold[i] for i in order]).find(text)
    assert {order[place] for place in shuffled} == found


def test_what_is_found_is_the_callers_own() -> None:
    matcher = EntityMatcher([["Oslo"]])
    matcher.find("Oslo").clear()
    assert matcher.find("Oslo") == {0}


@pytest.mark.parametrize(
    ("text", "alias", "found"),
    [
        ("a woman in Romania", "Oman", False),
        ("Lennon's band", "Lennon", True),
        ("Lennons band", "Lennon", False),
        ("the Joneses' house", "Joneses", True),
        ("John Lennon's band", "John Lennon", True),
        ("John Lennon's band", "Lennon's band", True),
        ("John Lennon's band", "Lennon band", False),
        ("made in the U.S.A. today", "USA", True),
        ("population 1,000 people", "1000", True),
        ("Beatles", "The Beatles", True),
        ("日本の東京都で", "東京", True),
        ("C is a language", "C++", True),  # symbols are no part of a name
        ("Oslo", "!!!", False),
    ],
)
def test_examples(text: str, alias: str, found: bool) -> None:
    assert (EntityMatcher([[alias]]).find(text) == {0}) is found


def test_a_name_does_not_reach_from_title_to_text() -> None:
    matcher = EntityMatcher([["New York"], ["York"]])
    assert matcher.find_in_documents([Document("New", "York is old.")]) == {1}
    assert matcher.find_in_documents([Document("x", "New"), Document("York", "")]) == {1}
    assert matcher.find_in_documents([]) == set()


def test_gold_from_parquet() -> None:
    gold = np.array([np.array(["Oslo", "Kristiania"]), np.array(["Bergen"])], dtype=object)
    assert EntityMatcher(gold).find("Kristiania and Bergen") == {0, 1}


def test_many_entities_in_one_pass() -> None:
    gold = [[f"place {n}", f"town {n}"] for n in range(3000)]
    assert EntityMatcher(gold).find("town 7, place 2999; place 30000") == {7, 2999}


@pytest.mark.parametrize("text", [None, b"Oslo", 3, ["Oslo"], float("nan")])
def test_only_strings_are_searched(text: Any) -> None:
    with pytest.raises(DataError, match="must be a string"):
        EntityMatcher([["Oslo"]]).find(text)
