"""Means, intervals, groups and pages, from made-up answers."""

from __future__ import annotations

import json
import random
from html.parser import HTMLParser
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.answers import log_line, turn, write_log

from spader_slime import cli
from spader_slime.errors import DataError
from spader_slime.evaluation.bootstrap import RESAMPLES, SEED, estimates, sign_probability
from spader_slime.evaluation.results import Results, results_of

OSLO, BOTH, WRONG = (
    f"<answer>{json.dumps(a)}</answer>" for a in (["Oslo"], ["Oslo", "Bergen"], ["X"])
)
TIERS = ["head", "tail"]


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Two data sets; question 0 of the first is asked twice, one answer of it was lost."""
    lines = [
        log_line(0, [OSLO], tiers=TIERS, seen=[0]),
        log_line(0, [BOTH], sample=1, tiers=TIERS, seen=[0, 1]),
        log_line(1, [WRONG], gold=[[name] for name in "abcdefg"], response_tokens=40),
        log_line(2, ["no idea"], gold=[["Oslo"]]),
        log_line(3, end="infrastructure", error="search timeout: 90 s"),
        log_line(0, [BOTH], dataset="more"),
    ]
    lines[1]["turns"].insert(0, turn('<tool_call>["a", "b"]</tool_call>', calls=2))
    return results_of(write_log(tmp_path / "run", lines), "ours")


def measured(results: Results, name: str) -> dict[str, float]:
    groups = {group.name: group for group in results.summary.data_sets}
    return {key: value.mean for key, value in groups[name].estimates.items()}


def test_a_question_counts_once_whatever_its_samples(results: Results) -> None:
    found = measured(results, "test")
    assert found["recall"] == pytest.approx(mean([0.75, 0.0, 0.0]))
    assert found["f1"] == pytest.approx(mean([(2 / 3 + 1) / 2, 0.0, 0.0]))
    assert found["recall_at_5"] == pytest.approx(mean([0.75, 0.0, 0.0]))
    assert found["exact_match"] == pytest.approx(mean([0.5, 0.0, 0.0]))
    assert found["invalid_format"] == pytest.approx(1 / 3)
    assert found["calls"] == pytest.approx(mean([1.0, 0.0, 0.0]))
    assert found["turns"] == pytest.approx(mean([1.5, 1.0, 1.0]))
    assert found["tokens"] == pytest.approx(mean([20.0, 40.0, 20.0]))
    assert found["recall_head"] == 1.0 and found["recall_tail"] == 0.5
    assert measured(results, "all")["recall"] == pytest.approx(mean([0.75, 0.0, 0.0, 1.0]))


def test_questions_are_grouped_by_their_gold_answers(results: Results) -> None:
    groups = {group.name: group.questions for group in results.summary.by_gold["test"]}
    assert groups == {"1": 1, "2": 1, "6-10": 1}
    assert results.summary.data_sets[0].ends == {"answered": 0.75, "invalid": 0.25}


def test_what_was_lost_is_in_no_mean_and_said(results: Results) -> None:
    assert results.summary.data_sets[0].trajectories == 4
    assert results.lost == {"search timeout: 90 s": 1}
    assert any("1 not in the tables" in note and "90 s" in note for note in results.notes)


class Page(HTMLParser):
    """Cells of all tables, and what a browser would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.fetched: list[Any] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def test_markdown_page_and_lines_say_the_same(results: Results) -> None:
    results.write()
    page = Page((results.folder / "results.html").read_text("utf-8"))
    text = (results.folder / "results.md").read_text("utf-8")
    assert page.fetched == []
    for grid in results.tables:
        for row in grid.rows:
            assert f"| {' | '.join(row)} |" in text
            assert set(row) <= {*page.cells, ""}
    lines = [json.loads(x) for x in (results.folder / "results.jsonl").read_text().splitlines()]
    assert [(x["dataset"], x["number"], x["sample"]) for x in lines][:2] == [
        ("more", 0, 0),
        ("test", 0, 0),
    ]
    assert lines[0]["prediction"] == ["Oslo", "Bergen"] and lines[0]["scores"]["f1"] == 1.0
    whole = json.loads((results.folder / "results.json").read_text())
    assert whole["data_sets"]["test"]["measures"]["recall"]["mean"] == pytest.approx(0.25)
    assert whole["lost"] == results.lost


def test_official_scores_are_not_pooled_and_have_no_recall_at_k(results: Results) -> None:
    official = results_of(results.folder, "official")
    assert [group.name for group in official.summary.data_sets] == ["test", "more"]
    assert "recall_at_5" not in official.summary.data_sets[0].estimates


def test_answers_are_scored_again_without_asking(
    results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["evaluate", "score", str(results.folder), "--scoring", "authors"]) == 0
    assert "Scoring: authors" in capsys.readouterr().out
    assert json.loads((results.folder / "results.json").read_text())["scoring"] == "authors"


def test_a_folder_without_answers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no answers"):
        results_of(tmp_path, "ours")


numbers = st.one_of(st.just(float("nan")), st.floats(0, 1))


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12))
@settings(max_examples=20, deadline=None)
def test_intervals_are_those_of_a_slow_loop(rows: list[tuple[float, float]]) -> None:
    found = estimates(np.array(rows))
    draw = np.random.default_rng(SEED)
    counts = draw.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), RESAMPLES)
    for column, estimate in enumerate(found):
        known = [row[column] for row in rows if row[column] == row[column]]
        if not known:
            assert estimate is None
            continue
        assert estimate is not None and estimate.mean == pytest.approx(mean(known))
        means = []
        for times in counts:
            drawn = [r[column] for r, n in zip(rows, times, strict=True) for _ in range(n)]
            kept = [value for value in drawn if value == value]
            means += [sum(kept) / len(kept)] if kept else []
        if len(known) < 2:
            assert estimate.low is None
        else:
            assert estimate.low == pytest.approx(np.quantile(means, 0.025), abs=1e-9)
            assert estimate.high == pytest.approx(np.quantile(means, 0.975), abs=1e-9)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    dice, hits = random.Random(3), 0
    for _ in range(200):
        sample = np.array([[dice.random()] for _ in range(60)])
        (estimate,) = estimates(sample)
        assert estimate is not None and estimate.low is not None and estimate.high is not None
        hits += estimate.low <= 0.5 <= estimate.high
    assert 180 <= hits <= 198


def test_a_difference_that_is_everywhere_is_unlikely_to_be_chance() -> None:
    assert sign_probability(np.full(20, 0.1)) < 0.002
    assert sign_probability(np.zeros(20)) == 1.0
    assert sign_probability(np.array([0.1, -0.1] * 10)) > 0.5
