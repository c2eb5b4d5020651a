"""The service as a real process over real HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.retrieval import call

from spader_slime.errors import SearchError
from spader_slime.retrieval.index import build_index
from spader_slime.retrieval.launch import SearchProcess
from spader_slime.retrieval.passages import Passage

CASES = Path(__file__).parents[1] / "cases" / "queries.jsonl"


def test_spader_protocol(search_url: str) -> None:
    status, reply = call(search_url, {"queries": ["Norway", "Peru capital"], "top_k": 2})
    assert status == 200 and set(reply) == {"result"}
    assert [row["query"] for row in reply["result"]] == ["Norway", "Peru capital"]
    assert [len(row["documents"]) for row in reply["result"]] == [2, 2]
    first = reply["result"][1]["documents"][0]
    assert first == {"title": "Lima", "contents": "Capital of Peru."}


def test_topk_is_an_alias_and_scores_come_on_request(search_url: str) -> None:
    _, reply = call(search_url, {"queries": ["Norway"], "topk": 1, "return_scores": True})
    (document,) = reply["result"][0]["documents"]
    assert set(document) == {"title", "contents", "score"} and document["score"] > 0


def test_max_chars_is_shared_and_noted(search_url: str) -> None:
    body = {"queries": ["Norway", "Peru"], "top_k": 3, "max_chars": 60, "initial_k": 50}
    _, reply = call(search_url, body)
    shown = [d for row in reply["result"] for d in row["documents"]]
    assert sum(len(d["title"]) + len(d["contents"]) for d in shown) <= 60
    assert reply["result"][1]["documents"][0]["title"] == "Lima"  # before the second of Norway
    assert "60 characters" in reply["truncation_warning"]


def test_a_wanted_reranker_that_is_not_there_is_said(search_url: str) -> None:
    assert call(search_url, {"queries": ["x"], "use_reranker": True})[1]["reranked"] is False


def test_search_r1_protocol(search_url: str) -> None:
    body = {"queries": ["Peru", ""], "topk": 1, "return_scores": True}
    status, reply = call(search_url, body, "/search_r1/retrieve")
    assert status == 200 and reply["result"][1] == []
    (found,) = reply["result"][0]
    assert found["document"] == {"contents": '"Lima"\nCapital of Peru.'} and found["score"] > 0
    bare = call(search_url, {**body, "return_scores": False}, "/search_r1/retrieve")[1]
    assert bare["result"][0] == [{"contents": '"Lima"\nCapital of Peru.'}]


@pytest.mark.parametrize("path", ["/retrieve", "/search_r1/retrieve"])
@pytest.mark.parametrize(
    "case", [json.loads(line) for line in CASES.open()], ids=lambda c: c["why"]
)
def test_any_query_is_answered(search_url: str, path: str, case: dict[str, str]) -> None:
    status, reply = call(search_url, {"queries": [case["query"], "Lima"]}, path)
    assert status == 200 and len(reply["result"]) == 2
    documents = [row["documents"] if path == "/retrieve" else row for row in reply["result"]]
    assert isinstance(documents[0], list) and "Lima" in json.dumps(documents[1])
    if not case["query"].strip():
        assert documents[0] == []


def test_the_film_with_a_fraction_is_found(search_url: str) -> None:
    _, reply = call(search_url, {"queries": ['who made "8½": a film?']})
    assert reply["result"][0]["documents"][0]["title"] == "8½"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        [],
        {},
        {"queries": "Oslo"},
        {"queries": None},
        {"queries": ["a", 1]},
        {"queries": [["a"]]},
        {"queries": ["a"] * 65},
        {"queries": ["a"], "top_k": "5"},
        {"queries": ["a"], "top_k": 0},
        {"queries": ["a"], "topk": True},
        {"queries": ["a"], "top_k": 2.5},
        {"queries": ["a"], "top_k": 10**6},
        {"queries": ["a"], "max_chars": -1},
        {"queries": ["a"], "return_scores": "yes"},
    ],
    ids=str,
)
def test_wrong_requests_get_400_and_a_reason(search_url: str, body: Any) -> None:
    status, reply = call(search_url, body)
    assert status == 400 and reply["error"]


def test_64_queries_and_nulls_are_allowed(search_url: str) -> None:
    body = {"queries": ["Oslo"] * 64, "top_k": None, "max_chars": None, "initial_k": None}
    status, reply = call(search_url, body)
    assert status == 200 and len(reply["result"]) == 64
    assert call(search_url, {"queries": []}) == (200, {"result": []})


def test_a_body_over_one_megabyte_gets_413(search_url: str) -> None:
    frame = len(json.dumps({"queries": [""]}))
    assert call(search_url, {"queries": ["a" * (1_000_000 - frame)]})[0] == 200
    assert call(search_url, {"queries": ["a" * (1_000_001 - frame)]})[0] == 413


def test_other_paths_and_methods(search_url: str) -> None:
    assert call(search_url, b"", "/health", "GET") == (200, {"status": "ok", "passages": 5})
    assert call(search_url, {}, "/nowhere")[0] == 404
    assert call(search_url, b"", "/retrieve", "GET")[0] == 405


def test_a_missing_index_is_reported_to_the_starter(tmp_path: Path) -> None:
    with pytest.raises(SearchError, match="no complete index"):
        SearchProcess(tmp_path / "none").start()


def test_stopping_twice_and_sigterm_ends_cleanly(tmp_path: Path) -> None:
    build_index([Passage("a", "b")], tmp_path / "x")
    service = SearchProcess(tmp_path / "x").start()
    child = service.process
    service.stop()
    service.stop()
    assert child is not None and child.returncode in (0, -signal.SIGTERM)


def test_the_service_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    build_index([Passage("a", "b")], tmp_path / "x")
    script = (
        "import sys, time; from pathlib import Path\n"
        "from spader_slime.retrieval.launch import SearchProcess\n"
        "print(SearchProcess(Path(sys.argv[1])).start().process.pid, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "x")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as starter:
        assert starter.stdout is not None
        service = int(starter.stdout.readline())
        starter.kill()
    deadline = time.monotonic() + 30
    while _runs(service) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _runs(service)


def _runs(pid: int) -> bool:
    """Whether the process exists and is more than a corpse that nobody collects."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/status")
    return not (status.exists() and "State:\tZ" in status.read_text())
