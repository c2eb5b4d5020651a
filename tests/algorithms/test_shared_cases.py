"""Every line of the shared cases that concerns rewards, answers and advantages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spader_slime.algorithms.advantage import step_peer_advantage
from spader_slime.algorithms.answers import normalize, parse_answer
from spader_slime.algorithms.entities import EntityMatcher
from spader_slime.algorithms.teacher_scores import response_log_probs

CASES = Path(__file__).parents[1] / "cases"


def lines(name: str) -> list[Any]:
    with (CASES / f"{name}.jsonl").open(encoding="utf-8") as file:
        return [pytest.param(json.loads(line), id=str(n)) for n, line in enumerate(file, 1)]


@pytest.mark.parametrize("case", lines("advantage"))
def test_advantage(case: dict[str, Any]) -> None:
    num_steps = [len(rewards) for rewards in case["step_rewards"]]
    padded = [r + [0.0] * (max(num_steps) - len(r)) for r in case["step_rewards"]]
    advantages, _ = step_peer_advantage(padded, num_steps, [0] * len(padded), case["gamma"])
    for row, want in zip(advantages, case["advantages"], strict=True):
        np.testing.assert_allclose(row[: len(want)], want, atol=2e-6)
        assert not row[len(want) :].any()


@pytest.mark.parametrize("case", lines("answers"))
def test_answers(case: dict[str, Any]) -> None:
    assert parse_answer(case["text"]) == case["want"]


@pytest.mark.parametrize("case", lines("matching"))
def test_matching(case: dict[str, Any]) -> None:
    assert EntityMatcher(case["gold"]).find(case["text"]) == set(case["found"])


@pytest.mark.parametrize("case", lines("normalization"))
def test_normalization(case: dict[str, Any]) -> None:
    assert (normalize(case["a"]) == normalize(case["b"])) == case["equal"]


@pytest.mark.parametrize("case", lines("teacher"))
def test_teacher(case: dict[str, Any]) -> None:
    start = case.get("logprob_start_len", case["prompt_len"] - 1)
    entries = case.get("input_token_logprobs", [])
    found = response_log_probs(case["ids"], case["prompt_len"], start, entries)
    assert len(found) == len(case["ids"]) - case["prompt_len"]
    np.testing.assert_allclose(found.numpy(), case["want"], rtol=1e-6)


def test_every_file_of_cases_is_used() -> None:
    """Here, or in the tests of the agent and of the search service."""
    elsewhere = {"alignment", "tool_calls", "queries"}
    here = {"advantage", "answers", "matching", "normalization", "teacher"}
    assert {path.stem for path in CASES.glob("*.jsonl")} == here | elsewhere
