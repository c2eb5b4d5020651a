"""The stand-in for slime's Sample keeps its arrays aligned and survives a dump."""

from __future__ import annotations

import pytest

from spader_slime.local.sample import Sample, Status

META = {"finish_reason": {"type": "stop"}, "prompt_tokens": 3, "cached_tokens": 1}


def two_turns() -> Sample:
    sample = Sample(tokens=[1, 2, 3])
    meta = {**META, "weight_version": "4"}
    sample.append_response_tokens(tokens=[5, 6], log_probs=[-0.1, -0.2], meta_info=meta, text="ab")
    sample.append_response_tokens(tokens=[7], trainable=False, text="c")
    sample.append_response_tokens(tokens=[8], log_probs=[-0.3], meta_info=meta)
    return sample


def test_turns_and_observations_stay_aligned() -> None:
    sample = two_turns()
    assert sample.tokens == [1, 2, 3, 5, 6, 7, 8]
    assert sample.response_length == 4
    assert sample.loss_mask == [1, 1, 0, 1]
    assert sample.rollout_log_probs == [-0.1, -0.2, 0.0, -0.3]
    assert sample.response == "abc"
    assert sample.weight_versions == ["4", "4"]
    assert sample.prefix_cache_info.prefix_cache_hit_rate == pytest.approx(1 / 3)
    assert sample.effective_response_length == 3


@pytest.mark.parametrize(
    ("finish", "status"),
    [("stop", Status.COMPLETED), ("length", Status.TRUNCATED), ("abort", Status.ABORTED)],
)
def test_the_engine_s_reason_sets_the_status(finish: str, status: Status) -> None:
    sample = Sample(tokens=[1])
    meta = {**META, "finish_reason": {"type": finish}}
    sample.append_response_tokens(tokens=[2], log_probs=[-1.0], meta_info=meta)
    assert sample.status is status


@pytest.mark.parametrize(
    "wrong",
    [
        {"tokens": [1, 2], "log_probs": [-0.1]},
        {"tokens": [1, 2]},
        {"tokens": [1], "log_probs": [-0.1], "trainable": False},
    ],
)
def test_misaligned_tokens_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError):
        Sample(tokens=[1]).append_response_tokens(**wrong)


def test_a_sample_survives_its_dictionary() -> None:
    sample = two_turns()
    sample.metadata["spader"] = {"episode": {"end": "answered"}}
    sample.source = "web"  # type: ignore[attr-defined]  # slime keeps unknown keys too
    copy = Sample.from_dict(sample.to_dict())
    assert copy.to_dict() == sample.to_dict()
    assert copy.source == "web"  # type: ignore[attr-defined]
