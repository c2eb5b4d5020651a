"""Asking against scripted servers: what is logged, lost, asked again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.engine import ScriptedEngine
from support.hosts import write_prompts
from support.search import ScriptedSearch

from spader_slime.errors import EngineError, SearchError
from spader_slime.evaluation.run import evaluate
from spader_slime.evaluation.sources import Sources


def answers(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]


def test_every_question_is_asked_and_scored(sources: Sources, tmp_path: Path) -> None:
    results, missing = evaluate(sources, tmp_path / "out")
    assert missing == 0
    (group,) = results.summary.data_sets
    means = {name: value.mean for name, value in group.estimates.items()}
    assert (group.questions, group.trajectories) == (3, 6)
    assert means["recall"] == pytest.approx((1 / 3 + 2 / 3 + 1 / 3) / 3)
    assert means["precision"] == 1.0 and means["invalid_format"] == 0.0
    assert means["calls"] == pytest.approx(4 / 3) and means["turns"] == pytest.approx(7 / 3)
    assert means["seen"] == pytest.approx((1 / 3 + 2 / 3 + 1 / 3) / 3)


def test_a_line_tells_the_whole_trajectory(sources: Sources, tmp_path: Path) -> None:
    evaluate(sources, tmp_path / "out", concurrency=1)
    line = answers(tmp_path / "out")[2]
    assert (line["number"], line["sample"], line["end"]) == (1, 0, "answered")
    assert [turn["titles"] for turn in line["turns"]] == [["Oslo"], ["Bergen"], []]
    assert [turn["queries"] for turn in line["turns"]] == [["capital Norway"], ["Vestland"], []]
    assert line["answer"] == ["Oslo", "Bergen"] and line["seen"] == [0, 1]
    counted = sum(t["sampled_tokens"] + t["observation_tokens"] for t in line["turns"])
    assert counted == line["response_tokens"]
    assert line["turns"][0]["text"].startswith("<think>capital</think>")


def test_lost_answers_are_told_apart_and_asked_again(
    sources: Sources, search: ScriptedSearch, engine: ScriptedEngine, tmp_path: Path
) -> None:
    undisturbed, _ = evaluate(sources, tmp_path / "whole")
    engine.calls.clear()
    first = len(search.requests)
    search.fault = lambda number: "status" if number in (first + 2, first + 5) else ""
    results, missing = evaluate(sources, tmp_path / "out", concurrency=1)
    assert missing == 2 and sum(results.lost.values()) == 2
    assert results.summary.data_sets[0].trajectories == 4
    search.fault = lambda number: ""
    asked = len(engine.calls)
    results, missing = evaluate(sources, tmp_path / "out")
    assert missing == 0 and results.lost == {}
    assert 4 <= len(engine.calls) - asked <= 6  # two trajectories of two or three turns
    assert results.summary == undisturbed.summary


def test_where_nothing_works_the_rest_is_not_asked(
    sources: Sources, engine: ScriptedEngine, tmp_path: Path
) -> None:
    engine.refuse = lambda call: True
    many = {"towns": Path(write_prompts(tmp_path / "many.jsonl", 40))}
    results, missing = evaluate(replace(sources, data=many), tmp_path / "out", concurrency=4)
    assert missing == 80 and len(answers(tmp_path / "out")) < 30
    assert results.summary.data_sets == []


def test_servers_that_are_not_there_are_told_before_anything_is_asked(
    sources: Sources, search: ScriptedSearch, engine: ScriptedEngine, tmp_path: Path
) -> None:
    search.fault = lambda number: "status"
    with pytest.raises(SearchError, match="500"):
        evaluate(sources, tmp_path / "out")
    engine.close()
    with pytest.raises(EngineError, match="no SGLang server"):
        evaluate(sources, tmp_path / "out")
    assert engine.calls == []


def test_what_is_finished_needs_no_server(
    sources: Sources, engine: ScriptedEngine, search: ScriptedSearch, tmp_path: Path
) -> None:
    before, _ = evaluate(sources, tmp_path / "out")
    engine.close()
    search.close()
    after, missing = evaluate(sources, tmp_path / "out", scoring="authors")
    assert missing == 0 and after.scoring == "authors"
    assert after.summary.data_sets[0].questions == before.summary.data_sets[0].questions


def test_each_trajectory_has_the_seed_that_the_host_gives_it(
    sources: Sources, engine: ScriptedEngine, tmp_path: Path
) -> None:
    hot = replace(sources, ask={**sources.ask, "temperature": 0.5, "seed": 3})
    evaluate(hot, tmp_path / "out")
    seeds = {call.params["sampling_seed"] for call in engine.calls}
    assert seeds == {3 * 1_000_003 + index for index in range(6)}
    engine.calls.clear()
    evaluate(sources, tmp_path / "cold")
    assert all("sampling_seed" not in call.params for call in engine.calls)


def test_a_limit_can_grow(sources: Sources, engine: ScriptedEngine, tmp_path: Path) -> None:
    results, missing = evaluate(sources, tmp_path / "out", limit=1)
    assert missing == 0 and results.summary.data_sets[0].questions == 1
    asked = len(engine.calls)
    results, _ = evaluate(sources, tmp_path / "out")
    assert results.summary.data_sets[0].questions == 3
    assert len(engine.calls) - asked == 2 * (3 + 2)
