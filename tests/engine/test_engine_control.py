"""Aborting, pausing, flushing, and what the engine says about itself."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.engines import Client, log_prob_gap, prompt, request
from support.holding import running, some_steps, start, until

from spader_slime.local.engine.runner import Runner

CONTEXT, ROWS = 256, 16  # of the engines in conftest.py


def test_abort_by_id_gives_what_is_there(changing: Client, model: Any) -> None:
    changing.ok("/pause_generation", {"mode": "in_place"})
    with ThreadPoolExecutor(4) as pool:
        futures = start(pool, changing, 4)
        some_steps(changing)
        changing.ok("/abort_request", {"rid": "group1"})
        reply = futures[1].result(30)
        assert reply["meta_info"]["finish_reason"]["type"] == "abort"
        assert 0 < len(reply["output_ids"]) < 240
        assert reply["meta_info"]["completion_tokens"] == len(reply["output_ids"])
        assert log_prob_gap(model, prompt(8, 1), reply) < 1e-5
        assert not any(future.done() for i, future in enumerate(futures) if i != 1)
        changing.ok("/continue_generation", {})
        others = [futures[i].result(60) for i in (0, 2, 3)]
    assert {len(other["output_ids"]) for other in others} == {240}


def test_abort_all_reaches_the_queue(changing: Client) -> None:
    changing.ok("/pause_generation", {"mode": "in_place"})
    with ThreadPoolExecutor(ROWS + 4) as pool:
        futures = start(pool, changing, ROWS + 4)
        some_steps(changing)
        assert running(changing) == ROWS
        changing.ok("/abort_request", {"abort_all": True})
        replies = [future.result(30) for future in futures]
    assert {r["meta_info"]["finish_reason"]["type"] for r in replies} == {"abort"}
    assert sorted(bool(r["output_ids"]) for r in replies) == [False] * 4 + [True] * ROWS
    until(lambda: changing.ok("/v1/loads")["aggregate"]["total_reqs"] == 0)


def test_an_abort_without_name_or_match_changes_nothing(changing: Client) -> None:
    changing.ok("/pause_generation", {})
    with ThreadPoolExecutor(1) as pool:
        (future,) = start(pool, changing, 1, max_new_tokens=5)
        for body in ({}, {"rid": ""}, {"rid": "other"}, {"rid": "group0-x"}):
            changing.ok("/abort_request", body)
        changing.ok("/continue_generation", {})
        assert len(future.result(30)["output_ids"]) == 5


def test_pausing_aborts_by_default(changing: Client) -> None:
    changing.ok("/pause_generation", {"mode": "in_place"})
    with ThreadPoolExecutor(2) as pool:
        futures = start(pool, changing, 2)
        some_steps(changing)
        changing.ok("/pause_generation", {})
        reasons = [f.result(30)["meta_info"]["finish_reason"]["type"] for f in futures]
    assert reasons == ["abort", "abort"]
    assert changing.call("/pause_generation", {"mode": "never"})[0] == 400


def test_flush_waits_for_nobody(changing: Client) -> None:
    ids = prompt(30, 1)
    changing.generate(ids, max_new_tokens=1)
    assert changing.generate(ids, max_new_tokens=1)["meta_info"]["cached_tokens"] == 29
    changing.ok("/flush_cache")
    assert changing.generate(ids, max_new_tokens=1)["meta_info"]["cached_tokens"] == 0
    changing.ok("/pause_generation", {"mode": "in_place"})
    with ThreadPoolExecutor(1) as pool:
        start(pool, changing, 1)
        assert changing.call("/flush_cache")[0] == 400
        changing.ok("/abort_request", {"abort_all": True})
    changing.ok("/flush_cache")


def test_a_client_that_hangs_up_frees_its_row(changing: Client) -> None:
    changing.ok("/pause_generation", {"mode": "in_place"})
    host, port = changing.url.removeprefix("http://").split(":")
    body = b'{"input_ids": [5, 6], "sampling_params": {"max_new_tokens": 200}}'
    head = b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head + body)
        until(lambda: changing.ok("/v1/loads")["aggregate"]["total_reqs"] == 1)
    until(lambda: changing.ok("/v1/loads")["aggregate"]["total_reqs"] == 0)


def test_health(client: Client) -> None:
    for path in ("/health", "/health_generate"):
        assert client.call(path) == (200, "")


def test_information(client: Client) -> None:
    for path in ("/model_info", "/get_model_info"):
        told = client.ok(path)
        assert told["is_generation"] is True and told["vocab_size"] == 259
        assert told["architectures"] == ["Qwen3ForCausalLM"] and told["model_type"] == "qwen3"
    for path in ("/server_info", "/get_server_info"):
        told = client.ok(path)
        assert told["context_length"] == CONTEXT and told["max_running_requests"] == ROWS
        assert told["tp_size"] == told["dp_size"] == 1
    assert client.ok("/get_weight_version") == {"weight_version": "default"}


def test_meta_info(client: Client) -> None:
    meta = client.ok("/generate", request(prompt(6, 9), max_new_tokens=2, _rid="mine"))["meta_info"]
    assert meta["id"] == "mine" and meta["weight_version"] == "default"
    assert meta["e2e_latency"] > 0 and meta["cached_tokens"] == 0


def test_a_failing_model_fails_its_requests_only(
    changing: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, forward = request(prompt(9, 3), max_new_tokens=3, temperature=0), Runner.forward
    before = changing.ok("/generate", body)["output_ids"]

    def fail(*_: Any) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Runner, "forward", fail)
    status, reply = changing.call("/generate", body)
    assert status == 500 and reply["error"]["message"] == "out of memory"
    assert changing.call("/health_generate")[0] == 503
    monkeypatch.setattr(Runner, "forward", forward)
    assert changing.ok("/generate", body)["output_ids"] == before


def test_a_dead_scheduler_answers_and_is_not_healthy(
    changing: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("a bug")

    monkeypatch.setattr(Runner, "forward", fail)
    assert changing.call("/generate", request([5]))[0] == 500
    assert changing.call("/health")[0] == 503
    assert changing.call("/generate", request([5]))[0] == 500
    assert changing.call("/update_weights_from_disk", {"model_path": "x"})[0] == 400
    assert "a bug" in capsys.readouterr().err
