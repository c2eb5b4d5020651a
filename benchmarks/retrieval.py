"""The search service beside other engines: builds, memory, throughput, latency, rankings.

    python benchmarks/retrieval.py [--sizes 100000 300000 1000000] [--json results.json]

Makes a corpus (see `generated_corpus.py`), builds an index with every engine that is installed here
or under the interpreter that the variable PYSERINI_PYTHON names (bm25s with numba, pyserini with a
JAVA_HOME of version 21 or later), and asks all of them the same queries, in turns; medians of the
rounds. Texts of the passages are part of every answer. Corpora and indexes stay in --folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

from busy import Others
from generated_corpus import Generator, write_corpus
from retrieval_tables import report
from search_engines import ENGINES, name_of
from search_load import bodies, call_for, memory

from spader_slime.retrieval.launch import SearchProcess

HERE = Path(__file__).parent
NEEDS = {"bm25s": "bm25s, numba", "lucene": "pyserini"}
SAME_INDEX = {"lucene at 1.2 / 0.75": "lucene"}  # another ranking of it, for the overlap only
SERVICE = "tantivy, HTTP"
CLIENTS = (1, 2, 8)
WARM_UP_S = 2


def interpreter(engine: str) -> str | None:
    """A Python that has what the engine needs."""
    modules = NEEDS.get(SAME_INDEX.get(engine, engine))
    for python in (sys.executable, os.environ.get("PYSERINI_PYTHON", "")) if modules else ():
        check = [
            python,
            "-c",
            f"import importlib.util as u; [u.find_spec(m).name for m in {modules.split(', ')!r}]",
        ]
        if python and subprocess.run(check, capture_output=True, check=False).returncode == 0:
            return python
    return None if modules else sys.executable


def run(action: str, engine: str, folder: Path, **options: Any) -> dict[str, Any]:
    """What `search_engines.py` measured in a process of its own."""
    python = interpreter(engine)
    assert python is not None
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    command = [python, str(HERE / "search_engines.py"), action, engine, str(folder), *words]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{engine}, {action}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def service(folder: Path, queries: list[str], seconds: float) -> dict[str, Any]:
    """Load and memory of a service over an index, as `spader-slime serve` starts it."""
    with SearchProcess(folder) as running:
        assert running.process is not None
        pid = running.process.pid
        call_for(running.url, bodies(queries, 50), 2, WARM_UP_S, pid)
        loads = {
            f"{k} {clients}": asdict(
                call_for(running.url, bodies(queries, k), clients, seconds, pid)
            )
            for k in (5, 50)
            for clients in CLIENTS
        }
        return {"loads": loads, **memory(pid)}


class Bench:
    """One corpus size: its files, and what was measured."""

    def __init__(self, folder: Path, passages: int, engines: list[str], say: Callable[..., None]):
        self._home = folder / f"{passages}"
        self._passages, self._engines, self._say = passages, engines, say
        self._searching = [engine for engine in engines if engine not in SAME_INDEX]
        self._home.mkdir(parents=True, exist_ok=True)
        self._corpus, self._queries = self._home / "corpus.jsonl", self._home / "queries.json"

    def index(self, engine: str) -> Path:
        return self._home / SAME_INDEX.get(engine, engine)

    def build(self, threads: int) -> dict[str, Any]:
        """Build what is not there; what the builds took."""
        write_corpus(self._corpus, self._passages)
        return {engine: self._built(engine, threads) for engine in self._searching}

    def _built(self, engine: str, threads: int) -> dict[str, Any]:
        kept, others = self._home / f"{engine}.json", Others()
        if not kept.is_file():
            self._say(f"{self._passages:,} passages: {engine} builds")
            options = {"corpus": self._corpus, "threads": threads}
            found = run("build", engine, self.index(engine), **options)
            kept.write_text(json.dumps({**found, "others": others.cores()}))
        return json.loads(kept.read_text())

    def search(self, rounds: int, seconds: float) -> dict[str, Any]:
        """Medians of all rounds, by engine."""
        self._asked = Generator().queries(3000, self._passages)
        queries = [query for query, _ in self._asked]
        self._queries.write_text(json.dumps(queries))
        measures: dict[str, Callable[[], dict[str, Any]]] = {
            engine: partial(self._engine, engine, seconds) for engine in self._searching
        }
        measures[SERVICE] = lambda: service(self.index("tantivy"), queries, seconds)
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in measures}
        for number in range(rounds):
            for name, measure in measures.items():
                self._say(f"{self._passages:,} passages, round {number + 1}: {name}")
                others = Others()
                found[name].append({**measure(), "others": others.cores()})
        return {name: _median(rows) for name, rows in found.items()}

    def _engine(self, name: str, seconds: float) -> dict[str, Any]:
        return run("search", name, self.index(name), queries=self._queries, seconds=seconds)

    def rankings(self, count: int) -> dict[str, Any]:
        """For each engine: the share of tantivy's best k that it shows too, and how often the
        passage that a query was made from comes first."""
        options = {"queries": self._queries, "seconds": 0, "rank": count}
        rows = {e: run("search", e, self.index(e), **options)["rankings"] for e in self._engines}
        targets = [name_of(*record) for _, record in self._asked[:count]]
        return {
            engine: {
                **{f"overlap {k}": _overlap(rows["tantivy"], ranked, k) for k in (5, 50)},
                "own first": mean(t in r[:1] for t, r in zip(targets, ranked, strict=True)),
            }
            for engine, ranked in rows.items()
        }


def _overlap(ours: list[list[str]], theirs: list[list[str]], k: int) -> float:
    pairs = zip(ours, theirs, strict=True)
    return mean(len({*a[:k]} & {*b[:k]}) / max(len(a[:k]), len(b[:k]), 1) for a, b in pairs)


def _median(rows: list[Any]) -> Any:
    """Median of every number, member by member."""
    if isinstance(rows[0], dict):
        return {key: _median([row[key] for row in rows]) for key in rows[0] if key != "rankings"}
    return median(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--folder", type=Path, default=Path("runs/retrieval-benchmark"))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--threads", type=int, default=1, help="that build")
    parser.add_argument(
        "--rank", type=int, default=1000, help="queries whose rankings are compared"
    )
    parser.add_argument("--json", type=Path, help="write all numbers there")
    options = parser.parse_args()
    engines = [engine for engine in options.engines if interpreter(engine)]
    results: dict[str, Any] = {}
    for size in sorted(options.sizes):
        bench = Bench(options.folder, size, engines, lambda text: print(text, file=sys.stderr))
        built = bench.build(options.threads)
        searched = bench.search(options.rounds, options.seconds)
        results[str(size)] = {
            "build": built,
            "search": searched,
            "rank": bench.rankings(options.rank),
        }
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))
    print(report(results))


if __name__ == "__main__":
    main()
