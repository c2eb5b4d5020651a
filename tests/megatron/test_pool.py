"""The pool: one interface for any grid, and no hanging or left-over processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support.policies import Rollout, make_rollout, rows, transformers_log_probs

from spader_slime.errors import CheckpointError, DataError, SpaderError
from spader_slime.local.pool import TrainerPool
from spader_slime.megatron.settings import LearnerSettings

HOOK = Namespace(custom_advantage_function_path="spader_slime.hooks.compute_advantages")
TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def pair(hf: Path) -> Iterator[TrainerPool]:
    with TrainerPool(LearnerSettings(dp=2), hf) as pool:
        yield pool


def as_the_host_sends(data: Rollout, dp: int) -> list[dict[str, Any]]:
    """Advantages as `rewards`, one mapping per data-parallel rank."""
    raw = [float(i) for i in range(len(data["tokens"]))]
    shares = []
    for rank in range(dp):
        own = list(range(rank, len(raw), dp))
        share: dict[str, Any] = {"partition": own, **rows(data, own)}
        share["rewards"], share["raw_reward"] = share.pop("advantages"), raw
        share["rollout_mask_sums"] = torch.tensor([float(m.sum()) for m in share["loss_masks"]])
        shares.append(share)
    return shares


def test_two_processes_train_like_one(pair: TrainerPool, hf: Path, tmp_path: Path) -> None:
    data = make_rollout(1, trajectories=6)
    with TrainerPool(LearnerSettings(), hf) as alone:
        for pool in (alone, pair):
            pool.save(tmp_path / str(pool.settings.dp), 0, {})
        expected = alone.train(as_the_host_sends(data, 1), HOOK)
        found = pair.train(as_the_host_sends(data, 2), HOOK)
        assert found.keys() == expected.keys() and found["tokens"] > 0
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name
        assert alone.supervised(data)["loss"] == pytest.approx(pair.supervised(data)["loss"], 1e-4)
    assert pair.load(tmp_path / "2").iteration == 0


def test_scores_come_back_in_the_batchs_order(pair: TrainerPool, hf: Path, tmp_path: Path) -> None:
    data = make_rollout(2, trajectories=5)
    folder = pair.export_hf(tmp_path / "hf")
    for ours, theirs in zip(
        pair.log_probs(data), transformers_log_probs(folder, data), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_faults_of_the_data_leave_the_pool_usable(pair: TrainerPool, tmp_path: Path) -> None:
    data = make_rollout(3)
    nothing = {**data, "loss_masks": [mask * 0 for mask in data["loss_masks"]]}
    with pytest.raises(DataError, match="every loss mask is zero"):
        pair.supervised(nothing)
    with pytest.raises(DataError, match="data for 1 data-parallel ranks, but there are 2"):
        pair.train(as_the_host_sends(data, 1), HOOK)
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        pair.load(tmp_path)
    assert pair.supervised(data)["tokens"] > 0


def test_a_killed_process_is_noticed_at_once(pair: TrainerPool) -> None:
    data = make_rollout(4)
    pair.supervised(data)
    processes = pair.process_ids()
    os.kill(processes[1], signal.SIGKILL)
    with pytest.raises(SpaderError, match=r"trainer process 2 of 2 died \(exit code -9\)"):
        pair.supervised(data)
    assert not any(map(alive, processes))
    with pytest.raises(SpaderError, match="closed"):
        pair.supervised(data)


def test_an_error_in_a_process_comes_with_its_traceback(hf: Path) -> None:
    with TrainerPool(LearnerSettings(dp=2), hf) as pool:
        data, bad = as_the_host_sends(make_rollout(5), 2)
        bad["advantages"] = bad["rewards"] = [None] * len(bad["tokens"])
        with pytest.raises(SpaderError, match="trainer process 2 of 2 failed") as caught:
            pool.train([data, bad], HOOK)
        assert "Traceback" in str(caught.value) and "compute_advantages" in str(caught.value)
        assert not pool.process_ids()


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    for settings in (LearnerSettings(), LearnerSettings(tp=2)):
        with pytest.raises(CheckpointError, match="not a readable model config"):
            TrainerPool(settings, tmp_path)


def test_processes_end_with_their_parent(hf: Path) -> None:
    command = [sys.executable, "-m", "support.pools", str(hf)]
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    parent = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    try:
        assert parent.stdout is not None
        processes = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(processes) == 2 and all(map(alive, processes))
    finally:
        parent.kill()
        parent.wait()
    deadline = time.monotonic() + 20
    while any(map(alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, processes))


def alive(process: int) -> bool:
    """It exists and is not a zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
