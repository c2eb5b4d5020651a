"""Answering one checked request: search, rerank, share the characters."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from spader_slime.retrieval.backend import Backend
from spader_slime.retrieval.budget import Shown, share
from spader_slime.retrieval.models import Reranker
from spader_slime.retrieval.passages import Hit
from spader_slime.retrieval.wire import Request

MAX_QUERY_CHARS = 4_096  # longer queries are cut
CANDIDATES = 50  # for the reranker, where the caller does not say


class Work:
    """Searches over one backend.

    Args:
        threads: that search at once; 0: the caller's own, without a hop (for small indexes, where
            a query takes less than that).
        reranker: orders `initial_k` candidates anew unless a request says `use_reranker: false`.
    """

    def __init__(
        self, backend: Backend, threads: int = 0, reranker: Reranker | None = None
    ) -> None:
        self.backend, self._reranker = backend, reranker
        self._pool = ThreadPoolExecutor(threads) if threads else None

    @property
    def immediate(self) -> bool:
        """Whether `answer_now` may be used."""
        return self._pool is None and self._reranker is None

    def reranks(self, request: Request) -> bool:
        """Whether the answer to `request` is reranked."""
        return self._reranker is not None and request.use_reranker is not False

    def answer_now(self, request: Request) -> Shown:
        """What a call shows, from the calling thread."""
        return share(self._search(request, request.top_k, threading.Event()), request.max_chars)

    async def answer(self, request: Request) -> Shown:
        """What a call shows. When cancelled, its searches and rerankings end or never begin."""
        limit = self._candidates(request) if self.reranks(request) else request.top_k
        gone = threading.Event()
        try:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._pool, self._search, request, limit, gone)
            if self.reranks(request):
                found = await self._reranked(request, found)
        finally:
            gone.set()
        return share(found, request.max_chars)

    def _candidates(self, request: Request) -> int:
        return max(request.top_k, request.initial_k or CANDIDATES)

    def _search(self, request: Request, limit: int, gone: threading.Event) -> list[list[Hit]]:
        queries = [query[:MAX_QUERY_CHARS] for query in request.queries]
        return self.backend.search_all(queries, limit, gone.is_set)

    async def _reranked(self, request: Request, found: list[list[Hit]]) -> list[list[Hit]]:
        assert self._reranker is not None
        waiting = [
            asyncio.wrap_future(self._reranker.scores(query[:MAX_QUERY_CHARS], hits))
            for query, hits in zip(request.queries, found, strict=True)
        ]
        scores = await asyncio.gather(*waiting)
        rows = zip(found, scores, strict=True)
        return [best_first(hits, row)[: request.top_k] for hits, row in rows]


def best_first(hits: Sequence[Hit], scores: Sequence[float]) -> list[Hit]:
    """The hits with new scores, highest first; equal ones keep their order."""
    scored = [replace(hit, score=score) for hit, score in zip(hits, scores, strict=True)]
    return sorted(scored, key=lambda hit: -hit.score)
