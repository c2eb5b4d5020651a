"""Thirty hand-made predictions under the three scorings (docs/scoring.md)."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from support.answers import log_line

from spader_slime.errors import DataError
from spader_slime.evaluation.scores import Scored, Scorer
from spader_slime.scorings import SCORINGS, find_scoring

HERE = Path(__file__).parent
CASES = [json.loads(line) for line in (HERE / "predictions.jsonl").read_text("utf-8").splitlines()]
PAGE = HERE.parents[1] / "docs" / "scoring.md"
MEASURES = ("recall", "precision", "f1", "exact_match", "invalid_format")


def scored(case: dict[str, Any], scoring: str) -> Scored:
    fields = {name: case[name] for name in ("gold", "source", "official") if name in case}
    line = log_line(turns=case["turns"], **fields)
    return Scorer(find_scoring(scoring), "spader").one(line)


@pytest.mark.parametrize("scoring", SCORINGS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_each_prediction_scores_what_was_worked_out_by_hand(
    case: dict[str, Any], scoring: str
) -> None:
    found, expected = scored(case, scoring), case["expected"][scoring]
    assert (found.prediction is None) == (expected == "none"), case["why"]
    wanted = "0 0 0" if expected == "none" else expected
    numbers = [float(Fraction(part)) for part in wanted.split()]
    values = [found.values[name] for name in ("precision", "recall", "f1")]
    assert values == pytest.approx(numbers, abs=1e-12), case["why"]


def table() -> str:
    """Means over all predictions, in percent."""
    head = "| | recall | precision | F1 | exact match | invalid |\n"
    rows = [head, "| --- | ---: | ---: | ---: | ---: | ---: |\n"]
    for scoring in SCORINGS:
        values = [scored(case, scoring).values for case in CASES]
        cells = [f"{100 * mean(v[name] for v in values):.1f}" for name in MEASURES]
        rows.append(f"| {' | '.join([scoring, *cells])} |\n")
    return "".join(rows)


def test_the_table_of_the_page_is_that_of_the_file() -> None:
    assert len(CASES) == 30
    assert table() in PAGE.read_text("utf-8")


def test_the_official_scoring_needs_a_known_benchmark() -> None:
    with pytest.raises(DataError, match="hotpot"):
        Scorer(find_scoring("official"), "spader").one(log_line(source="hotpot"))


def test_numbers_of_cited_documents_are_no_part_of_an_answer() -> None:
    line = log_line(turns=['<answer>["[3] Oslo", "[0] Bergen"]</answer>'])
    one = Scorer(find_scoring("authors"), "spader_cited").one(line)
    assert one.prediction == ["Oslo", "Bergen"] and one.values["f1"] == 1.0
