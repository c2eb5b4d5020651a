"""A few real searches, through the client that training uses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from spader_slime.agent.search import SearchClient, SearchResult
from spader_slime.config import SearchConfig
from spader_slime.doctor.facts import DataFile, Probe
from spader_slime.errors import SearchError, SpaderError

LONGEST_S = 30.0  # a probe waits no longer than this, whatever `timeout_s` says
CALLS, BURST = 4, 16
MAX_QUERY_CHARS = 300


def probe_all(config: SearchConfig, data: Sequence[DataFile]) -> tuple[Probe, ...]:
    """One probe per address, with questions of the data as queries."""
    queries = list(_questions(data))[:CALLS] or ["capital city"]
    return tuple(asyncio.run(_probe_each(config, queries)))


async def _probe_each(config: SearchConfig, queries: Sequence[str]) -> list[Probe]:
    return await asyncio.gather(*(_probe(config, url, queries) for url in config.urls))


async def _probe(config: SearchConfig, url: str, queries: Sequence[str]) -> Probe:
    """Calls one after the other, then many at once; ends with the first fault."""
    timeout_s = min(config.timeout_s, LONGEST_S)
    made = Probe(url, queries=tuple(queries))
    try:
        client = SearchClient(replace(config, urls=[url], retries=0, timeout_s=timeout_s))
    except SpaderError as error:
        return replace(made, kind="address", message=str(error))
    try:
        found = [await client.search([query]) for query in queries]
        made = replace(
            made,
            latencies_s=tuple(result.latency_s for result in found),
            documents=tuple(tuple(result.documents[0]) for result in found),
        )
        burst = await _burst(client, queries, min(BURST, config.concurrency))
        return replace(made, burst_s=tuple(result.latency_s for result in burst))
    except SearchError as error:
        return replace(made, kind=error.kind, message=str(error))
    finally:
        await client.close()


async def _burst(client: SearchClient, queries: Sequence[str], size: int) -> list[SearchResult]:
    calls = (client.search([queries[number % len(queries)]]) for number in range(size))
    return await asyncio.gather(*calls)


def _questions(data: Sequence[DataFile]) -> Iterator[str]:
    for file in data:
        for row in file.rows[:CALLS]:
            text = _last_text(row.get(file.input_key)).strip()
            if text:
                yield text[:MAX_QUERY_CHARS]


def _last_text(prompt: Any) -> str:
    """A question, or the last message of a chat."""
    if isinstance(prompt, list) and prompt and isinstance(prompt[-1], dict):
        prompt = prompt[-1].get("content")
    return prompt if isinstance(prompt, str) else ""
