"""Episodes and credits travel inside the sample's metadata."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.episodes import credited, episode

from spader_slime import record
from spader_slime.episode import End, Episode
from spader_slime.errors import ConfigError, DataError
from spader_slime.local.sample import Sample, Status


def sample_of(made: Episode, evaluation: bool = False) -> Sample:
    sample = Sample(tokens=list(made.prompt_ids))
    if made.response_ids:
        sample.append_response_tokens(tokens=made.response_ids, log_probs=made.log_probs)
        sample.loss_mask = list(made.loss_mask)
    record.close_episode(sample, made, evaluation)
    return sample


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (End.ANSWERED, Status.COMPLETED),
        (End.INVALID, Status.COMPLETED),
        (End.TURN_LIMIT, Status.TRUNCATED),
        (End.TOKEN_LIMIT, Status.TRUNCATED),
        (End.ABORTED, Status.ABORTED),
        (End.INFRASTRUCTURE, Status.FAILED),
    ],
)
def test_the_end_decides_the_status(end: End, status: Status) -> None:
    assert sample_of(episode(["Oslo"], end=end)).status is status


def test_an_aborted_evaluation_has_failed() -> None:
    assert sample_of(episode(["Oslo"], end=End.ABORTED), evaluation=True).status is Status.FAILED


def test_episode_and_credit_survive_json() -> None:
    (made, credit), _ = credited(episode(["Oslo"], answer=["Oslo"]), episode(["Bergen"]))
    sample = sample_of(made)
    record.store_credit(sample, credit)
    sample.metadata = json.loads(json.dumps(sample.metadata))
    assert record.episode_of(sample) == made
    assert record.credit_of(sample) == credit


def test_an_aborted_sample_is_resumed_with_its_arrays() -> None:
    made = episode(["Oslo"], end=End.ABORTED)
    sample = sample_of(made)
    record.exclude(sample)  # a host may have rewarded the group before it came back
    resumed = record.open_episode(sample, [1, 2], keep_mask=False)
    assert resumed == made
    assert sample.loss_mask == made.loss_mask and not sample.remove_sample
    sample.loss_mask = [0] * sample.response_length
    record.open_episode(sample, [1, 2], keep_mask=True)
    assert sample.loss_mask == [0] * sample.response_length


@pytest.mark.parametrize("end", [End.INFRASTRUCTURE, End.ABORTED])
def test_what_failed_or_never_sampled_starts_afresh(end: End) -> None:
    made = episode(["Oslo"], end=end) if end is End.INFRASTRUCTURE else Episode(end=end)
    sample = sample_of(made)
    record.exclude(sample)
    assert record.open_episode(sample, [1, 2], keep_mask=False) == Episode(prompt_ids=[1, 2])
    assert (sample.tokens, sample.response_length, sample.loss_mask) == ([1, 2], 0, [])
    assert sample.rollout_log_probs == [] and not sample.remove_sample


@pytest.mark.parametrize("tokens", [[], [4, 5]])
def test_excluded_samples_never_have_an_empty_response(tokens: list[int]) -> None:
    sample = Sample(tokens=list(tokens))
    record.exclude(sample)
    assert sample.remove_sample and sample.response_length == 1
    assert sample.loss_mask == [0] and sample.rollout_log_probs == [0.0]
    assert len(sample.tokens) == max(len(tokens), 1) + 1


def test_a_sample_without_credit_says_what_is_missing() -> None:
    with pytest.raises(DataError, match="--group-rm"):
        record.credit_of(Sample(index=3))


def test_single_samples_are_graded_in_evaluation_only() -> None:
    made = episode(["Oslo"], answer=["Oslo"])
    record.check_group(sample_of(made, evaluation=True))
    record.check_group([sample_of(made)])
    with pytest.raises(ConfigError, match="--group-rm"):
        record.check_group(sample_of(made))


@pytest.mark.parametrize("metadata", [None, {}, {"other": 1}])
def test_foreign_metadata_is_left_alone(metadata: Any) -> None:
    sample = Sample(metadata=None if metadata is None else dict(metadata))  # type: ignore[arg-type]
    record.close_episode(sample, episode(["Oslo"]), evaluation=False)
    assert {k: v for k, v in sample.metadata.items() if k != "spader"} == (metadata or {})
