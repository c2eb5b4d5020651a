"""Checkpoints: whole or not there, whatever happens to the process that writes them."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from support.grids import quick_context
from support.policies import make_rollout, write_policy
from support.saving import train_and_save

from spader_slime.errors import CheckpointError
from spader_slime.megatron.checkpoint import is_complete, latest
from spader_slime.megatron.learner import Learner
from spader_slime.megatron.settings import LearnerSettings

Make = Callable[..., Learner]


@pytest.fixture
def learner(hf: Path) -> Iterator[Learner]:
    made = Learner(LearnerSettings(lr=3e-3, warmup_steps=4), hf)
    yield made
    made.close()


def test_training_goes_on_as_if_nothing_had_happened(learner: Learner, tmp_path: Path) -> None:
    for seed in range(3):
        learner.supervised(make_rollout(seed))
    torch.manual_seed(99)
    learner.save(tmp_path, 3, {"position": 12, "order": [2, 0, 1]})
    drawn, expected = torch.rand(3), [learner.supervised(make_rollout(s)) for s in (3, 4)]
    assert expected[0]["lr"] == 3e-3 and learner.optimizer.steps == 5

    restored = learner.load(tmp_path)
    assert restored.iteration == 3 and restored.state == {"position": 12, "order": [2, 0, 1]}
    assert learner.optimizer.steps == 3
    assert torch.equal(torch.rand(3), drawn)
    assert [learner.supervised(make_rollout(s)) for s in (3, 4)] == expected


def test_old_checkpoints_are_pruned_and_the_newest_is_found(
    learner: Learner, tmp_path: Path
) -> None:
    for iteration in (1, 2, 10):
        learner.save(tmp_path, iteration, {}, keep=2)
    assert sorted(p.name for p in tmp_path.glob("iter_*")) == ["iter_0000002", "iter_0000010"]
    assert latest(tmp_path) == tmp_path / "iter_0000010"
    assert (tmp_path / "latest_checkpointed_iteration.txt").read_text() == "10"
    assert learner.load(tmp_path / "iter_0000002").iteration == 2


def test_an_iteration_saved_again_replaces_the_first(learner: Learner, tmp_path: Path) -> None:
    learner.save(tmp_path, 1, {"try": 1})
    learner.save(tmp_path, 1, {"try": 2})
    assert learner.load(tmp_path).state == {"try": 2}
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {"iter_0000001", "latest_checkpointed_iteration.txt"}


def test_a_damaged_checkpoint_is_passed_over(learner: Learner, tmp_path: Path) -> None:
    learner.save(tmp_path, 1, {})
    newer = learner.save(tmp_path, 2, {})
    for file in sorted(newer.iterdir()):
        copy = tmp_path / "copy" / newer.name
        shutil.copytree(newer, copy)
        assert is_complete(copy)
        (copy / file.name).write_bytes(file.read_bytes()[:-1])
        assert not is_complete(copy)
        (copy / file.name).unlink()
        assert not is_complete(copy)
        shutil.rmtree(copy)
    next(newer.glob("*.distcp")).unlink()
    assert latest(tmp_path) == tmp_path / "iter_0000001"
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        learner.load(newer)


def test_nothing_to_load_is_said_so(learner: Learner, tmp_path: Path) -> None:
    assert latest(tmp_path / "absent") is None
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        learner.load(tmp_path)


def test_another_models_checkpoint_is_refused(learner: Learner, tmp_path: Path) -> None:
    learner.save(tmp_path / "run", 1, {})
    learner.close()
    other = Learner(LearnerSettings(), write_policy(tmp_path / "other", layers=3))
    try:
        with pytest.raises(CheckpointError, match="does not fit"):
            other.load(tmp_path / "run")
    finally:
        other.close()


def test_killed_while_saving(hf: Path, tmp_path: Path) -> None:
    """kill -9 at random moments, half-written checkpoints among them, until there were four."""
    chance, half_written, reached = random.Random(3), 0, 0
    for attempt in range(40):
        ours, theirs = quick_context().Pipe(duplex=False)
        process = quick_context().Process(target=train_and_save, args=(hf, tmp_path, theirs))
        process.start()
        theirs.close()
        reached = max(reached, ours.recv())
        time.sleep(chance.uniform(0.0, 0.25))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode == -signal.SIGKILL
        half_written += any(tmp_path.glob(".iter_*.tmp"))
        found = latest(tmp_path)
        assert found is not None and int(found.name[-7:]) >= reached
        if half_written >= 4 and attempt >= 5:
            break
    assert half_written >= 4
    learner = Learner(LearnerSettings(), hf)
    try:
        restored = learner.load(tmp_path)
        assert restored.state["step"] == restored.iteration == learner.optimizer.steps
        learner.save(tmp_path, restored.iteration + 1, {})
        assert not list(tmp_path.glob(".iter_*"))
    finally:
        learner.close()
