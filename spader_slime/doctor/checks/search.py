"""The search service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from urllib.parse import urlsplit

from spader_slime.config import SearchConfig
from spader_slime.doctor.facts import Facts, Probe
from spader_slime.doctor.findings import Finding, error, ok, warning
from spader_slime.doctor.flags import Flags

ADVICE = {
    "address": "write addresses such as http://host:8000/retrieve",
    "connection": "start it (spader-slime search --index DIR), or correct spader.search.urls",
    "timeout": "too slow, or not the search service: raise spader.search.timeout_s or look there",
    "status": "look at its log; the path is /retrieve or /search_r1/retrieve",
    "malformed": "it has to speak the SPADER or the Search-R1 protocol (docs/agent.md)",
    "oversized": "lower spader.search.top_k or max_chars",
}


def check(facts: Facts) -> Iterator[Finding]:
    """Every address answers in time, in our protocol, within the limits that we ask for."""
    if facts.config.value is None:
        return
    config = facts.config.value.search
    if not config.urls:
        yield error("spader.search.urls", "empty", "give at least one address")
    for probe in facts.searches:
        if probe.kind:
            yield error(probe.url, f"{probe.kind}: {probe.message}", ADVICE[probe.kind])
        else:
            yield from _answers(probe, config)
    yield from loopback(facts.flags, [probe.url for probe in facts.searches])


def _answers(probe: Probe, config: SearchConfig) -> Iterator[Finding]:
    sizes = [sum(len(d.title) + len(d.text) for d in found) for found in probe.documents]
    most = max(map(len, probe.documents))
    if not most:
        advice = (
            f"none for {probe.queries[0]!r} and the others: is the index empty, or another one?"
        )
        yield warning(probe.url, "no documents", advice)
    if most > config.top_k:
        yield warning(probe.url, f"{most} documents", f"it ignores top_k {config.top_k}")
    if max(sizes) > config.max_chars:
        advice = f"it ignores max_chars {config.max_chars}: observations will be cut in tokens"
        yield warning(probe.url, f"{max(sizes):,} characters", advice)
    yield _speed(probe, config)


def _speed(probe: Probe, config: SearchConfig) -> Finding:
    one, slowest = median(probe.latencies_s), max(probe.burst_s)
    value = f"{1000 * one:.0f} ms; {len(probe.burst_s)} at once: {1000 * slowest:.0f} ms at most"
    if slowest > config.timeout_s / 2:
        advice = f"near spader.search.timeout_s {config.timeout_s:g}: add servers, or raise it"
        return warning(probe.url, value, advice)
    return ok(probe.url, value)


def loopback(flags: Flags, urls: Sequence[str]) -> Iterator[Finding]:
    """Addresses that only this machine can reach, where several nodes have to."""
    if flags.count("actor-num-nodes", 1) == 1:
        return
    for url in urls:
        host = urlsplit(url).hostname or ""
        if host in ("localhost", "::1") or host.startswith("127."):
            advice = (
                "with several nodes the rollout manager may run on another: use the host's name"
            )
            yield warning(url, "this machine only", advice)
