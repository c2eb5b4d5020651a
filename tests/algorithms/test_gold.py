from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spader_slime.algorithms.answers import as_gold, score_answer
from spader_slime.algorithms.entities import EntityMatcher
from spader_slime.errors import DataError


@pytest.mark.parametrize(
    "value",
    [
        [["Oslo", "Kristiania"], ["1905"]],
        (("Oslo", "Kristiania"), ("1905",)),
        [["Oslo", " ", "Kristiania", None], [1905]],
        [["Oslo", "Kristiania"], "1905"],
        np.array([["Oslo", "Kristiania"], ["1905", ""]]),
        np.array([np.array(["Oslo", "Kristiania"]), np.array([1905])], dtype=object),
    ],
)
def test_every_form_becomes_one(value: Any) -> None:
    gold = as_gold(value)
    assert gold == [["Oslo", "Kristiania"], ["1905"]]
    assert all(type(alias) is str for aliases in gold for alias in aliases)


def test_a_flat_list_is_a_list_of_entities() -> None:
    assert as_gold(["Oslo", "Bergen"]) == as_gold(np.array(["Oslo", "Bergen"])) != []
    assert as_gold(["Oslo", "Bergen"]) == [["Oslo"], ["Bergen"]]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("Oslo", "list of alias lists"),
        ("[['Oslo']]", "list of alias lists"),
        (b"Oslo", "list of alias lists"),
        (None, "list of alias lists"),
        (3, "list of alias lists"),
        ({"Oslo": 1}, "list of alias lists"),
        ({"Oslo"}, "list of alias lists"),
        (np.array("Oslo"), "list of alias lists"),
        ([], "no entity"),
        (np.array([]), "no entity"),
        ([["Oslo"], []], "entity 1 has no alias"),
        ([["Oslo"], [" ", ""]], "entity 1 has no alias"),
        ([""], "entity 0 has no alias"),
        ([[None]], "entity 0 has no alias"),
        ([["Oslo", 1.5]], "must be a string"),
        ([["Oslo", True]], "must be a string"),
        ([["Oslo", float("nan")]], "must be a string"),
        ([[["Oslo"]]], "must be a string"),
        ([b"Oslo"], "must be a string"),
    ],
)
def test_bad_gold_is_named_wherever_it_enters(value: Any, says: str) -> None:
    for door in (as_gold, EntityMatcher, lambda gold: score_answer(["Oslo"], gold)):
        with pytest.raises(DataError, match=says):
            door(value)
