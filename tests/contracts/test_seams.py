"""The embedded host calls the hooks as real slime does.

`fixtures/slime_seams.json` was recorded from slime v0.3.1 and main; `record_seams.py` renews it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from contracts import embedded
from contracts.real_slime import checkout

from spader_slime.local import worker

HERE = Path(__file__).resolve().parent
FIXTURE = json.loads((HERE.parent / "fixtures" / "slime_seams.json").read_text("utf-8"))

# What one host has and the other has not, each with its reason. All else must be equal.
SCHEDULE = {"global_batch_sizes", "num_microbatches", "micro_batch_indices"}  # slime's packing
ON_THE_TRAINER = SCHEDULE | {"kl", "log_probs", "local_raw_reward"}  # unread by our hook
ONLY_SLIME = {
    "train data of a rank": SCHEDULE,
    "rollout_data before compute_advantages": ON_THE_TRAINER,
    "rollout_data after compute_advantages": ON_THE_TRAINER,
}
SEEDS = {"sampling_seed"}  # the embedded engine always samples by seed
RANK = {"partition"}  # slime v0.3.1 drops it on the way to the trainer
ONLY_EMBEDDED = {
    "sampling_params, training": SEEDS,
    "sampling_params, evaluation": SEEDS,
    "rollout_data before compute_advantages": RANK,
    "rollout_data after compute_advantages": RANK,
}


@pytest.fixture(scope="module")
def seams(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "is_last_stage", lambda: True)  # no process grid here
        return embedded.record(tmp_path_factory.mktemp("scenario"))


@pytest.mark.parametrize("version", ["main", "v0.3.1"])
@pytest.mark.parametrize("seam", [name for name in FIXTURE["main"] if name != "loss batch"])
def test_the_embedded_host_calls_hooks_as_slime_does(
    seams: dict[str, Any], version: str, seam: str
) -> None:
    ours, theirs = seams[seam], FIXTURE[version][seam]
    assert without(ours, ONLY_EMBEDDED.get(seam, set()) - set(theirs)) == without(
        theirs, ONLY_SLIME.get(seam, set())
    )


def without(names: Any, left_out: set[str]) -> Any:
    if isinstance(names, dict):
        return {key: value for key, value in names.items() if key not in left_out}
    return [name for name in names if name not in left_out] if left_out else names


def test_both_versions_were_recorded_at_the_same_seams() -> None:
    assert sorted(FIXTURE) == ["main", "v0.3.1"]
    assert sorted(FIXTURE["main"]) == sorted(FIXTURE["v0.3.1"])


def test_real_slime_still_calls_hooks_as_recorded(tmp_path: Path) -> None:
    slime = checkout()
    if slime is None:
        pytest.skip("slime not importable")
    out = tmp_path / "seams.json"
    command = [sys.executable, str(HERE / "record_seams.py"), slime, str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    for version, found in json.loads(out.read_text("utf-8")).items():
        assert found == FIXTURE[version], version
