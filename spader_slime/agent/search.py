"""Client of the search service (SPADER and Search-R1 protocols)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from spader_slime.agent.event_loops import LoopSemaphore
from spader_slime.agent.http import HttpClient, HttpFault, check_urls, never, with_retries
from spader_slime.config import SearchConfig
from spader_slime.episode import Document
from spader_slime.errors import SearchError

MAX_REPLY_BYTES = 16 * 2**20
REFUSALS = (400, 413, 422)  # HTTP statuses that are about the queries, not about the service
BACKOFF_S = 0.5  # before the first further attempt


@dataclass(frozen=True)
class SearchResult:
    """What the service found.

    Attributes:
        documents: one list per query, best first.
        notes: remarks of the service, for example that results were cut.
        latency_s: wall-clock seconds of the call, waiting for a free place and retries included.
        attempts: requests sent.
    """

    documents: list[list[Document]]
    notes: tuple[str, ...] = ()
    latency_s: float = 0.0
    attempts: int = 1


class SearchClient:
    """Searches over kept-alive connections; the service's addresses take turns.

    Raises:
        ConfigError: no address, or one that is not http(s).
    """

    def __init__(self, config: SearchConfig, backoff_s: float = BACKOFF_S) -> None:
        check_urls("search.urls", config.urls)
        self._config, self._backoff_s = config, backoff_s
        self._http = HttpClient()
        self._turn = 0
        self._places = LoopSemaphore(config.concurrency)

    async def search(
        self, queries: Sequence[str], give_up: Callable[[], bool] = never
    ) -> SearchResult:
        """Documents for each query; queries go out as they are, blank ones too.

        Args:
            give_up: asked before every further attempt.

        Raises:
            SearchError: all attempts failed, or the service refused the request.
        """
        body, began, attempts = self._body(queries), time.perf_counter(), 0

        async def attempt(number: int) -> SearchResult:
            nonlocal attempts
            attempts = number + 1
            return _read(await self._post(body), len(queries))

        try:
            found = await with_retries(attempt, self._config.retries, self._backoff_s, give_up)
        except HttpFault as fault:
            message = f"{fault} ({attempts} attempts)"
            raise SearchError(fault.kind, message, fault.status in REFUSALS) from fault
        latency_s = time.perf_counter() - began
        return SearchResult(found.documents, found.notes, latency_s, attempts)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    async def _post(self, body: bytes) -> bytes:
        urls = self._config.urls
        self._turn += 1
        url = urls[self._turn % len(urls)]
        async with self._places:
            return await self._http.post(
                url, body, timeout_s=self._config.timeout_s, limit=MAX_REPLY_BYTES
            )

    def _body(self, queries: Sequence[str]) -> bytes:
        config = self._config
        return orjson.dumps(
            {
                "queries": list(queries),
                "topk": config.top_k,
                "max_chars": config.max_chars,
                "initial_k": config.initial_k,
                "return_scores": False,
            }
        )


def _read(body: bytes, num_queries: int) -> SearchResult:
    try:
        reply = orjson.loads(body)
        documents = [_documents(found) for found in reply["result"]]
        note = reply.get("truncation_warning")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise HttpFault("malformed", f"the reply can't be read: {error!r}", True) from error
    if len(documents) != num_queries:
        message = f"the reply holds {len(documents)} results for {num_queries} queries"
        raise HttpFault("malformed", message, True)
    return SearchResult(documents, (note,) if isinstance(note, str) and note else ())


def _documents(found: Any) -> list[Document]:
    """SPADER: `{"query", "documents": [..]}`; Search-R1: a list, each with or without score."""
    listed = found["documents"] if isinstance(found, dict) else found
    if not isinstance(listed, list):
        raise TypeError("documents must be a list")
    return [_document(item.get("document", item)) for item in listed]


def _document(fields: Any) -> Document:
    text = fields["contents"]
    if not isinstance(text, str):
        raise TypeError("contents must be a string")
    title = fields.get("title")
    if isinstance(title, str):
        return Document(title, text)
    first, _, rest = text.partition("\n")
    return Document(first.strip().strip('"'), rest)
