"""The search service at full load for a long time, with clients that misbehave among the others.

    python benchmarks/soak.py [--minutes 10] [--clients 8] [--broken 0.05]

Every good answer must be the one given at the beginning; every broken client must get the error it
deserves; at the end nothing may be in flight, the service must end by itself when told to, and its
memory must have stayed within 10 % of what it was after the first tenth of the time. Exit status 1
if anything of this fails.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.request import urlopen

import psutil
from broken_clients import BROKEN
from generated_corpus import Generator
from search_load import Connection, bodies, checked

from spader_slime.retrieval.child import ServerProcess
from spader_slime.retrieval.index import build_index
from spader_slime.retrieval.passages import Passage

FLAT = 0.1
WARM_UP = 0.1  # of the time


class Tally:
    """What happened, from all threads."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._lock = threading.Lock()

    def add(self, what: str, fault: str = "") -> None:
        with self._lock:
            self.counts[what] += 1
            if fault:
                self.faults.append(f"{what}: {fault}")


class Client:
    """Calls until the time is over; every now and then as a broken client."""

    def __init__(self, url: str, requests: list[bytes], broken: float, tally: Tally) -> None:
        self._url, self._requests, self._broken, self._tally = url, requests, broken, tally
        self._expected = _digests(url, requests)

    def run(self, seed: int, end: float) -> None:
        draw, connection = random.Random(seed), Connection(self._url)
        while time.monotonic() < end:
            number = draw.randrange(len(self._requests))
            if draw.random() < self._broken:
                act = draw.choice(BROKEN)
                self._tally.add(act.__name__, _tried(act, self._url, self._requests[number], draw))
                continue
            try:
                status, answer = connection.post(self._requests[number])
                good = status == 200 and hashlib.md5(answer).digest() == self._expected[number]
                self._tally.add("good calls", "" if good else f"{status} {answer[:80]!r}")
            except OSError as error:
                self._tally.add("good calls", repr(error))
                connection = Connection(self._url)
        connection.close()


def _tried(act: object, *arguments: object) -> str:
    try:
        return act(*arguments)  # type: ignore[operator]
    except Exception as error:
        return repr(error)


def _digests(url: str, requests: list[bytes]) -> list[bytes]:
    connection, digests = Connection(url), []
    for request in requests:
        answer = connection.post(request)
        checked(answer)
        digests.append(hashlib.md5(answer[1]).digest())
    return digests


def watch(process: psutil.Process, end: float) -> list[tuple[float, float, int, int]]:
    """MB resident, MB of its own, open files, threads; every second, workers included."""
    samples = []
    while time.monotonic() < end:
        family = [process, *process.children(recursive=True)]
        usage = [one.memory_full_info() for one in family]
        resident, own = sum(u.rss for u in usage) / 1e6, sum(u.uss for u in usage) / 1e6
        files = sum(one.num_fds() for one in family)
        samples.append((resident, own, files, sum(one.num_threads() for one in family)))
        time.sleep(1)
    return samples


def drift(samples: list[tuple[float, float, int, int]], column: int) -> tuple[float, float, float]:
    """Mean just after the warm-up, mean at the end, and the largest deviation from the former."""
    steady = [sample[column] for sample in samples[int(len(samples) * WARM_UP) :]]
    span = max(1, len(steady) // 10)
    start, last = sum(steady[:span]) / span, sum(steady[-span:]) / span
    return start, last, max(abs(value - start) / start for value in steady)


def soak(service: ServerProcess, options: argparse.Namespace) -> list[str]:
    """Faults, and what was measured on the way is printed."""
    queries = [query for query, _ in Generator().queries(3000, options.passages)]
    tally, requests = Tally(), bodies(queries, 5)
    client = Client(service.url, requests, options.broken, tally)
    assert service.process is not None
    seconds = options.minutes * 60
    end = time.monotonic() + seconds
    threads = [
        threading.Thread(target=client.run, args=(n, end), daemon=True)
        for n in range(options.clients)
    ]
    for thread in threads:
        thread.start()
    samples = watch(psutil.Process(service.process.pid), end)
    for thread in threads:
        thread.join(60)
    faults = list(tally.faults)
    faults += ["a client hangs"] * sum(thread.is_alive() for thread in threads)
    for what, count in sorted(tally.counts.items()):
        print(f"{what:24} {count:10,}  {count / seconds:10.1f}/s")
    for column, name in enumerate(("MB resident", "MB of its own")):
        start, last, worst = drift(samples, column)
        print(f"{name:24} {start:10.1f} -> {last:.1f}, farthest {worst:+.1%}")
        faults += [f"{name} moved by {worst:.1%}"] if worst > FLAT else []
    print(f"{'open files, threads':24} {samples[len(samples) // 10][2:]} -> {samples[-1][2:]}")
    return faults + _left(service)


def _left(service: ServerProcess) -> list[str]:
    """What is still in flight a little later, beside the one that asks."""
    time.sleep(2)
    with urlopen(service.url.replace("/retrieve", "/metrics"), timeout=30) as reply:
        lines = reply.read().decode().splitlines()
    print(*(line for line in lines if line.startswith("spader_search_requests_total")), sep="\n")
    (flying,) = (float(x.split()[-1]) for x in lines if x.startswith("spader_search_in_flight"))
    return [] if flying == 1 else [f"{flying - 1:.0f} calls are still in flight"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--broken", type=float, default=0.05, help="share of broken calls")
    parser.add_argument("--passages", type=int, default=200_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("runs/soak"))
    options = parser.parse_args()
    index = options.folder / f"{options.passages}"
    if not (index / "manifest.json").is_file():
        build_index((Passage(*r) for r in Generator().records(options.passages)), index)
    command = ["serve", "--index", str(index), "--port", "0", "--workers", str(options.workers)]
    service = ServerProcess("spader_slime.cli", command, timeout_s=60).start()
    process = service.process
    assert process is not None
    faults = soak(service, options) if process.poll() is None else ["the service ended"]
    service.stop()
    if process.returncode not in (0, -15):
        faults.append(f"the service ended with {process.returncode}")
    print(f"faults: {len(faults)}", *faults[:20], sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
