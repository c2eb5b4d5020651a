from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spader_slime.algorithms.answers import AnswerKey, AnswerScore, normalize, score_answer
from spader_slime.errors import DataError

NAMES = ["Oslo", "oslo ", "Kristiania", "Bergen", "The Bergen", "Bodø", "Hamar", "Moss", "", "!"]
predictions = st.lists(st.sampled_from(NAMES), max_size=8)
golds = st.lists(
    st.lists(st.sampled_from(NAMES[:7]), min_size=1, max_size=3), min_size=1, max_size=5
)


def slow_score(predicted: list[str], gold: list[list[str]]) -> dict[str, float]:
    """Word for word: predictions deduplicated after normalization, entities counted once."""
    forms = list(dict.fromkeys(normalize(p) for p in predicted if normalize(p)))
    named = {e for e, aliases in enumerate(gold) for a in aliases if normalize(a) in forms}
    wrong = [f for f in forms if not any(f == normalize(a) for aliases in gold for a in aliases)]
    guessed = len(named) + len(wrong)
    precision = len(named) / guessed if guessed else 0.0
    recall = len(named) / len(gold)
    both = precision + recall
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / both if both else 0.0,
        "num_predicted": guessed,
        "exact_match": precision == recall == 1.0,
    }


@given(predictions, golds)
def test_scores_equal_the_slow_count(predicted: list[str], gold: list[list[str]]) -> None:
    score = score_answer(predicted, gold)
    for name, want in slow_score(predicted, gold).items():
        assert getattr(score, name) == pytest.approx(want)
    for k in (5, 10, 20, 50):
        found = round(score.recall * len(gold))
        assert score.recall_at[k] == getattr(score, f"recall_at_{k}")
        assert score.recall_at[k] == pytest.approx(min(1.0, found / min(k, len(gold))))


@given(predictions, golds, st.randoms())
def test_order_does_not_matter(predicted: list[str], gold: list[list[str]], draw: Any) -> None:
    mixed_answers, mixed_gold = predicted.copy(), gold.copy()
    draw.shuffle(mixed_answers)
    draw.shuffle(mixed_gold)
    plain, mixed = score_answer(predicted, gold), score_answer(mixed_answers, mixed_gold)
    assert replace(mixed, repeated=0) == replace(plain, repeated=0)


@given(predictions, golds)
def test_saying_it_again_changes_only_the_count_of_repeats(
    predicted: list[str], gold: list[list[str]]
) -> None:
    once, twice = score_answer(predicted, gold), score_answer(predicted * 2, gold)
    spoken = len([p for p in predicted if normalize(p)])
    assert twice == AnswerScore(**{**vars(once), "repeated": once.repeated + spoken})


def test_two_names_of_one_entity_count_once_in_precision_too() -> None:
    score = score_answer(["Oslo", "Kristiania", "Hamar"], [["Oslo", "Kristiania"], ["Bergen"]])
    assert (score.precision, score.recall, score.num_predicted, score.repeated) == (0.5, 0.5, 2, 1)


def test_a_shared_name_names_both() -> None:
    score = score_answer(["Victoria"], [["Victoria", "Port Victoria"], ["Victoria"]])
    assert score.exact_match and score.num_predicted == 2


def test_a_perfect_answer_by_any_alias() -> None:
    score = score_answer(["Bjørgvin", "oslo"], [["Oslo"], ["Bergen", "Bjørgvin"]])
    assert score.f1 == score.precision == score.recall == 1.0 and score.exact_match


def test_recall_at_k_divides_by_what_k_answers_could_name() -> None:
    gold = [[f"place {n}"] for n in range(40)]
    score = score_answer([f"place {n}" for n in range(8)], gold)
    assert score.recall_at == {5: 1.0, 10: 0.8, 20: 0.4, 50: 0.2}


@pytest.mark.parametrize("predicted", [None, [], [""], ["!!!"], ()])
def test_an_empty_answer_scores_nothing(predicted: Any) -> None:
    score = score_answer(predicted, [["Oslo"]])
    assert (score.f1, score.precision, score.num_predicted, score.repeated) == (0.0, 0.0, 0, 0)


def test_numpy_arrays_are_fine() -> None:
    gold = np.array([np.array(["Oslo", "Kristiania"]), np.array(["Bergen"])], dtype=object)
    assert score_answer(np.array(["Kristiania", "bergen"]), gold).f1 == 1.0


@pytest.mark.parametrize("predicted", ["Oslo", ["Oslo", 3], [None], {"a": 1}, 7, [float("nan")]])
def test_other_predictions_are_refused(predicted: Any) -> None:
    with pytest.raises(DataError, match="predicted answer"):
        score_answer(predicted, [["Oslo"]])


def test_a_key_scores_many_answers() -> None:
    key = AnswerKey([["Oslo"], ["Bergen"]])
    assert [key.score(answer).recall for answer in (["oslo"], ["x"], None)] == [0.5, 0.0, 0.0]


def test_scores_survive_json() -> None:
    score = score_answer(["Oslo", "x"], [["Oslo"], ["Bergen"]])
    assert AnswerScore.from_dict(json.loads(json.dumps(score.to_dict()))) == score
