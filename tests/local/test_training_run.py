"""`spader-slime train` as a user runs it: whole runs, and runs that are killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from spader_slime.local.dumps import read_dump
from spader_slime.local.engine.launch import EngineProcess
from spader_slime.local.world.build import build_world
from spader_slime.megatron.checkpoint import latest

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart" / "config.yaml"
SMALL = (
    "cold_start.steps=30",
    "cold_start.checkpoint_every=10",
    "run.iterations=4",
    "run.checkpoint_every=1",
    "run.dump_every=1",
    "run.report=false",
    "rollout.prompts=2",
    "rollout.samples=4",
    "train.minibatches=2",
    "evaluation.samples=1",
    "evaluation.test=false",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_world("small", tmp_path_factory.mktemp("world") / "small").root


def start(world: Path, run: Path, log: Path, more: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "spader_slime.cli", "train", "--config", str(QUICKSTART)]
    command += [*SMALL, *more, f"world.path={world}", f"run.dir={run}"]
    with log.open("ab") as out:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, stdout=out, stderr=out, env=environment)


def finish(world: Path, run: Path, log: Path) -> None:
    assert start(world, run, log).wait(timeout=300) == 0, log.read_text()


@pytest.fixture(scope="module")
def whole(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    finish(world, folder / "run", folder / "log.txt")
    return folder / "run"


def lines(run: Path, phase: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in found if line["phase"] == phase]


def test_a_run_leaves_everything_behind(whole: Path) -> None:
    result = json.loads((whole / "result.json").read_text())
    for part in ("before", "after"):
        assert 0.0 <= result[part]["dev"]["recall"] <= 1.0
    assert result["baselines"]["plain_query"]["dev"]["f1"] > 0.2
    assert [line["iteration"] for line in lines(whole, "train")] == [0, 1, 2, 3]
    assert latest(whole / "checkpoints") == whole / "checkpoints" / "iter_0000004"
    assert list((whole / "tensorboard").rglob("events*"))


def test_training_and_rollout_agree_in_every_iteration(whole: Path) -> None:
    gaps = [line["train/logprob_gap"] for line in lines(whole, "train")]
    assert len(gaps) == 4 and max(gaps) <= 1e-4
    assert all(line["train/tokens"] > 0 for line in lines(whole, "train"))


def test_the_export_loads_and_is_as_greedy_as_the_engine(whole: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(whole / "hf", dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(whole / "hf")
    messages = [{"role": "user", "content": "Which cities are in Mali?"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    prompt = tokenizer.encode(text, add_special_tokens=False)
    made = model.generate(torch.tensor([prompt]), max_new_tokens=40, do_sample=False)
    assert made[0, len(prompt) :].tolist() == _greedy(whole / "hf", prompt, 40)


def _greedy(model: Path, prompt: list[int], count: int) -> list[int]:
    params = {"temperature": 0, "max_new_tokens": count}
    body = json.dumps({"input_ids": prompt, "sampling_params": params}).encode()
    headers = {"Content-Type": "application/json"}
    with EngineProcess(model, context_length=640) as engine:
        reply = urlopen(Request(f"{engine.url}/generate", body, headers), timeout=60)
        found: list[int] = json.load(reply)["output_ids"]
        return found


def questions(run: Path) -> list[list[Any]]:
    """Per iteration, which trajectory worked on which question."""
    dumps = [read_dump(run / "dumps" / f"{iteration}.pt") for iteration in range(4)]
    return [[(p.index, g.question) for g in groups for p in g.peers] for groups in dumps]


def test_killed_at_any_moment_it_goes_on_with_the_same_data(
    world: Path, whole: Path, tmp_path: Path
) -> None:
    run, log = tmp_path / "run", tmp_path / "log.txt"
    dice = random.Random(5)
    kills = 0
    stages = ("cold_start/checkpoints/iter_*", "evaluations/before.json", "checkpoints/iter_*")
    for stage in stages:  # once after each of them, at a random moment
        process = start(world, run, log)
        while process.poll() is None and not list(run.glob(stage)):
            time.sleep(0.02)
        time.sleep(dice.uniform(0.0, 1.0))
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = latest(run / "checkpoints")
        assert found is None or (found / "complete.json").exists()
    assert kills >= 2, log.read_text()
    finish(world, run, log)
    assert questions(run) == questions(whole)
    assert [line["iteration"] for line in lines(run, "train")] == [0, 1, 2, 3]
    steps = [line["iteration"] for line in lines(run, "cold_start")]
    assert steps == sorted(set(steps)) and steps[-1] == 29


def test_other_settings_in_the_same_folder_are_refused(whole: Path, world: Path) -> None:
    log = whole.parent / "refused.txt"
    assert start(world, whole, log, ["train.lr=0.5"]).wait(timeout=120) == 2
    assert "train.lr" in log.read_text().splitlines()[-1]
