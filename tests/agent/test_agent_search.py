"""The search client against services with every fault there is, over real sockets."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from support.search import ScriptedSearch
from support.web import LoopbackServer

from spader_slime.agent import search as module
from spader_slime.agent.search import SearchClient, SearchResult
from spader_slime.config import SearchConfig
from spader_slime.episode import Document
from spader_slime.errors import ConfigError, SearchError

FAULTS = {  # fault -> (kind of error, requests sent with two retries)
    "status": ("status", 3),
    "garbage": ("malformed", 3),
    "shape": ("malformed", 3),
    "huge": ("oversized", 1),
    "slow": ("timeout", 3),
}


def find(query: str) -> list[tuple[str, str]]:
    return [(query, f"About {query}.")]


def search(
    url: str | list[str],
    queries: list[str],
    times: int = 1,
    give_up: Callable[[], bool] = lambda: False,
    **config: Any,
) -> list[SearchResult]:
    """`times` searches at once."""

    async def run() -> list[SearchResult]:
        urls = [url] if isinstance(url, str) else url
        client = SearchClient(SearchConfig(**{"urls": urls, "retries": 2, **config}), 0.01)
        try:
            return await asyncio.gather(*(client.search(queries, give_up) for _ in range(times)))
        finally:
            await client.close()

    return asyncio.run(run())


def replying(body: Any, status: int = 200) -> LoopbackServer:
    async def reply(request: web.Request) -> web.Response:
        return web.json_response(body, status=status)

    return LoopbackServer({"/retrieve": reply})


def test_documents_of_every_query_come_back_in_order() -> None:
    with ScriptedSearch(find) as service:
        (found,) = search(service.endpoint, ["a", "b"], top_k=4, max_chars=99, initial_k=7)
    assert found.documents == [[Document("a", "About a.")], [Document("b", "About b.")]]
    assert found.attempts == 1 and found.latency_s > 0 and found.notes == ()
    (request,) = service.requests
    assert request["queries"] == ["a", "b"]
    assert (request["topk"], request["max_chars"], request["initial_k"]) == (4, 99, 7)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_a_typed_error_after_bounded_retries(fault: str) -> None:
    kind, requests = FAULTS[fault]
    with ScriptedSearch(find, lambda n: fault) as service, pytest.raises(SearchError) as caught:
        search(service.endpoint, ["a"], timeout_s=0.5 if fault == "slow" else 30)
    assert caught.value.kind == kind and not caught.value.refused
    assert len(service.requests) == requests
    assert str(caught.value).startswith(f"search {kind}: ")


@pytest.mark.parametrize("fault", [f for f, (_, requests) in FAULTS.items() if requests > 1])
def test_a_passing_fault_is_only_a_retry(fault: str) -> None:
    with ScriptedSearch(find, lambda n: fault if n < 3 else "") as service:
        (found,) = search(service.endpoint, ["a"], timeout_s=0.5 if fault == "slow" else 30)
    assert found.documents == [[Document("a", "About a.")]] and found.attempts == 3


def test_a_hundred_megabytes_are_not_read() -> None:
    with ScriptedSearch(find, lambda n: "huge") as service:
        tracemalloc.start()
        try:
            with pytest.raises(SearchError):
                search(service.endpoint, ["a"])
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 3 * module.MAX_REPLY_BYTES


def test_a_service_that_is_down() -> None:
    with ScriptedSearch(find) as service:
        url = service.endpoint
    with pytest.raises(SearchError, match="can't be reached") as caught:
        search(url, ["a"])
    assert caught.value.kind == "connection"


def test_addresses_take_turns_and_stand_in_for_each_other() -> None:
    with ScriptedSearch(find) as good, ScriptedSearch(find, lambda n: "status") as bad:
        found = search([bad.endpoint, good.endpoint], ["a"], times=8, retries=3)
    assert all(one.documents for one in found)
    assert bad.requests and len(good.requests) == 8


@pytest.mark.parametrize(
    ("status", "refused"), [(400, True), (413, True), (422, True), (404, False)]
)
def test_what_the_service_refuses_is_not_tried_again(status: int, refused: bool) -> None:
    with replying({"error": "no"}, status) as service, pytest.raises(SearchError) as caught:
        search(f"{service.url}/retrieve", ["a"])
    assert (caught.value.kind, caught.value.refused) == ("status", refused)
    assert "1 attempts" in str(caught.value)


def test_nobody_tries_again_once_the_rollout_is_over() -> None:
    with ScriptedSearch(find, lambda n: "status") as service, pytest.raises(SearchError):
        search(service.endpoint, ["a"], give_up=lambda: True)
    assert len(service.requests) == 1


def test_no_more_calls_at_once_than_allowed() -> None:
    most, now = 0, 0

    async def reply(request: web.Request) -> web.Response:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        return web.json_response({"result": [[]]})

    with LoopbackServer({"/retrieve": reply}) as service:
        search(f"{service.url}/retrieve", ["a"], times=12, concurrency=3)
    assert most == 3


@pytest.mark.parametrize(
    ("result", "documents"),
    [
        ([[{"document": {"contents": '"Oslo"\nCapital.'}, "score": 1.5}]], ("Oslo", "Capital.")),
        ([[{"contents": '"Oslo"\nCapital.'}]], ("Oslo", "Capital.")),
        ([{"documents": [{"title": "Oslo", "contents": "Capital."}]}], ("Oslo", "Capital.")),
        ([[{"title": "Oslo", "contents": "A\nB"}]], ("Oslo", "A\nB")),
    ],
)
def test_shapes_of_a_reply(result: Any, documents: tuple[str, str]) -> None:
    with replying({"result": result, "truncation_warning": "Cut."}) as service:
        (found,) = search(f"{service.url}/retrieve", ["a"])
    assert found.documents == [[Document(*documents)]] and found.notes == ("Cut.",)


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"result": None},
        {"result": []},
        {"result": [[], []]},
        {"result": [7]},
        {"result": [{"documents": {}}]},
        {"result": [[{"contents": 7}]]},
        {"result": [[{"document": None}]]},
    ],
)
def test_shapes_that_are_none(body: Any) -> None:
    with replying(body) as service, pytest.raises(SearchError) as caught:
        search(f"{service.url}/retrieve", ["a"], retries=0)
    assert caught.value.kind == "malformed"


@pytest.mark.parametrize("urls", [[], ["localhost:8000"], ["ftp://x"]])
def test_addresses_are_checked_at_once(urls: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"search\.urls"):
        SearchClient(SearchConfig(urls=urls))
