"""The embedded host calls the hooks as real slime does.

`fixtures/slime_seams.json` was recorded from slime v0.3.1 and main; `record_seams.py` renews it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from contracts import embedded
from contracts.driving import drive

HERE = Path(__file__).resolve().parent
FIXTURE = json.loads((HERE.parent / "fixtures" / "slime_seams.json").read_text("utf-8"))

# What one host has and the other has not, each with its reason. All else must be equal.
SCHEDULE = {"global_batch_sizes", "num_microbatches", "micro_batch_indices"}  # slime's packing
ON_THE_TRAINER = SCHEDULE | {"kl", "log_probs", "local_raw_reward"}  # unread by our hook
# The loss of slime sees one packed micro-batch, and what this scenario doesn't use as None.
PACKED = {"full_loss_masks", "packed_seq_params", "unconcat_tokens"}
UNUSED = {"multimodal_train_inputs", "ref_log_probs", "teacher_log_probs", "values"}
ONLY_SLIME = {
    "loss batch": PACKED | UNUSED,
    "train data of a rank": SCHEDULE,
    "rollout_data before compute_advantages": ON_THE_TRAINER,
    "rollout_data after compute_advantages": ON_THE_TRAINER,
}
SEEDS = {"sampling_seed"}  # the embedded engine always samples by seed
RANK = {"partition"}  # slime v0.3.1 drops it on the way to the trainer
# slime hands its loss nothing but the keys it asked for; ours must not read these there.
KEPT_BACK = {
    "partition", "raw_reward", "rewards", "rollout_ids", "sample_indices", "source_names",
    "truncated",
}  # fmt: skip
ONLY_EMBEDDED = {
    "loss batch": KEPT_BACK,
    "sampling_params, training": SEEDS,
    "sampling_params, evaluation": SEEDS,
    "rollout_data before compute_advantages": RANK,
    "rollout_data after compute_advantages": RANK,
}
OTHER_FORM = {"loss batch": {"tokens", "rollout_mask_sums"}}  # packed; one tensor per sample


@pytest.fixture(scope="module")
def seams(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return embedded.record(tmp_path_factory.mktemp("scenario"))


@pytest.mark.parametrize("version", ["main", "v0.3.1"])
@pytest.mark.parametrize("seam", FIXTURE["main"])
def test_the_embedded_host_calls_hooks_as_slime_does(
    seams: dict[str, Any], version: str, seam: str
) -> None:
    ours, theirs = seams[seam], FIXTURE[version][seam]
    differing = OTHER_FORM.get(seam, set())
    left_out = ONLY_EMBEDDED.get(seam, set()) - set(theirs)
    expected = without(theirs, ONLY_SLIME.get(seam, set()) | differing)
    assert without(ours, left_out | differing) == expected
    assert differing <= set(ours) & set(theirs)


def without(names: Any, left_out: set[str]) -> Any:
    if isinstance(names, dict):
        return {key: value for key, value in names.items() if key not in left_out}
    return [name for name in names if name not in left_out] if left_out else names


def test_both_versions_were_recorded_at_the_same_seams() -> None:
    assert sorted(FIXTURE) == ["main", "v0.3.1"]
    assert sorted(FIXTURE["main"]) == sorted(FIXTURE["v0.3.1"])


def test_real_slime_still_calls_hooks_as_recorded(tmp_path: Path) -> None:
    recorded = drive(HERE / "record_seams.py", tmp_path / "seams.json")
    for version, found in recorded.items():
        assert found == FIXTURE[version], version
