"""A run of `spader-slime train`, evaluated: the host's own numbers, both protocols, a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spader_slime.evaluation.run import evaluate
from spader_slime.evaluation.sources import Sources
from spader_slime.local.engine.launch import EngineProcess
from spader_slime.retrieval.launch import SearchProcess

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart" / "config.yaml"
SHORT = (
    "cold_start.steps=150",  # enough for searches and answers, with some invalid ones
    "run.iterations=0",
    "run.report=false",
    "evaluation.samples=1",
    "evaluation.temperature=0",
    "evaluation.test=false",
)
NAMES = {"tokens": "response_tokens", "seen": "seen_share"}  # ours -> the host's
COMMAND = [sys.executable, "-m", "spader_slime.cli"]
QUIET = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("trained") / "run"
    command = [*COMMAND, "train", "--config", str(QUICKSTART), *SHORT, f"run.dir={root}"]
    made = subprocess.run(command, capture_output=True, text=True, env=QUIET, check=False)
    assert made.returncode == 0, made.stderr
    return root


@pytest.fixture(scope="module")
def sources(run: Path) -> Iterator[Sources]:
    """Running servers on the run's checkpoint and world."""
    with (
        SearchProcess(run / "world" / "index") as search,
        EngineProcess(run / "hf", context_length=640) as engine,
    ):
        yield Sources(
            data={"dev": run / "world" / "dev.jsonl"},
            endpoint=engine.url,
            search_urls=[search.url],
            config=run / "config.yaml",
            ask={"max_tokens": 512, "max_context": 640},
        )


def test_a_run_is_evaluated_as_its_host_does(run: Path, tmp_path: Path) -> None:
    own = json.loads((run / "result.json").read_text())["after"]["dev"]
    data = {"dev": run / "world" / "dev.jsonl"}
    results, missing = evaluate(Sources(data=data, checkpoint=run), tmp_path / "out")
    assert missing == 0
    means = {k: v.mean for k, v in results.summary.data_sets[0].estimates.items()}
    shared = {name: NAMES.get(name, name) for name in means if NAMES.get(name, name) in own}
    assert len(shared) == 11
    for name, hosts in shared.items():
        assert means[name] == pytest.approx(own[hosts], abs=1e-12), name
    assert 0 < means["recall"] < 1 and means["calls"] > 0.5  # it does search and answer


def test_both_protocols_give_the_same_answers(sources: Sources, tmp_path: Path) -> None:
    for api in ("sglang", "chat"):
        evaluate(replace(sources, api=api), tmp_path / api)
    native, chat = (told(tmp_path / api) for api in ("sglang", "chat"))
    assert native == chat and len(native) >= 20


def told(folder: Path) -> dict[Any, Any]:
    lines = map(json.loads, (folder / "answers.jsonl").read_text().splitlines())
    kept = ("answer", "end", "turns", "seen", "prompt_tokens", "response_tokens")
    return {(x["number"], x["sample"]): [x[name] for name in kept] for x in lines}


def test_killed_half_way_and_called_again_it_makes_the_same_tables(
    sources: Sources, tmp_path: Path
) -> None:
    hot = replace(sources, ask={**sources.ask, "samples": 2, "temperature": 1.0, "seed": 1})
    evaluate(hot, tmp_path / "whole")
    out = tmp_path / "killed"
    command = [*COMMAND, "evaluate", "--out", str(out), "--concurrency", "4", *options(hot)]
    process = subprocess.Popen(command, env=QUIET, stdout=subprocess.DEVNULL)
    while process.poll() is None and lines(out) < 12:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 12 <= lines(out) < lines(tmp_path / "whole") and not (out / "results.md").exists()
    before = lines(out)
    subprocess.run(command, env=QUIET, check=True, stdout=subprocess.DEVNULL)
    assert lines(out) == lines(tmp_path / "whole") > before
    for name in ("results.md", "results.json", "results.jsonl", "results.html"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def lines(folder: Path) -> int:
    path = folder / "answers.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def options(sources: Sources) -> list[str]:
    asked = {f"--{name.replace('_', '-')}": str(value) for name, value in sources.ask.items()}
    asked |= {"--endpoint": str(sources.endpoint), "--config": str(sources.config)}
    asked |= {"--search-url": sources.search_urls[0], "--data": f"dev={sources.data['dev']}"}
    return [word for pair in asked.items() for word in pair]
