"""What has to hold after a fault drill, for every sample and for the counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from spader_slime import record
from spader_slime.algorithms.credit import assign_credit
from spader_slime.config import RewardConfig, SpaderConfig
from spader_slime.episode import End
from spader_slime.errors import SEARCH_ERROR_KINDS
from support.alignment import Calls, calls_by_session, check_alignment
from support.drill import Faults
from support.engine import ScriptedEngine

LOST = (End.INFRASTRUCTURE, End.ABORTED)
RAMP = {
    "cost_free_steps": 0,
    "cost_rampup_steps": 50,
}  # every training step has a c(step) of its own
Rollouts = Sequence[Sequence[Any]]


def check_drill(rollouts: Rollouts, metrics: Sequence[dict[str, float]], faults: Faults) -> None:
    """The drill met every kind of fault, and the counts of all rollouts add up."""
    for samples, numbers in zip(rollouts, metrics, strict=True):
        check_counts(samples, numbers)
    assert faults.cuts > 20
    told = sum(n for numbers in metrics for name, n in numbers.items() if "search_errors/" in name)
    lost = sum(numbers["spader/failed/infrastructure"] for numbers in metrics)
    assert 50 < lost == told <= faults.broken  # the others hit episodes that began anew


def check_counts(samples: Sequence[Any], numbers: dict[str, float]) -> None:
    """Ends and causes as the metrics give them, against the episodes."""
    ends = Counter(record.episode_of(sample).end for sample in samples)
    trained = len(samples) - sum(ends[end] for end in LOST)
    assert numbers["spader/episodes"] == len(samples)
    assert numbers["spader/failed/aborted"] == ends[End.ABORTED]
    assert numbers["spader/failed/infrastructure"] == ends[End.INFRASTRUCTURE]
    causes = [numbers[f"spader/failed/search_{kind}"] for kind in SEARCH_ERROR_KINDS]
    assert sum(causes) == ends[End.INFRASTRUCTURE] and not numbers["spader/failed/engine"]
    for end in set(End) - {End.RUNNING, *LOST}:
        assert round(numbers[f"spader/end/{end.value}"] * max(trained, 1)) == ends[end]


def check_samples(rollouts: Rollouts, engine: ScriptedEngine, mask: bool) -> None:
    """No sample misaligned, and none trained that was lost.

    Rollout n must have been sampled by weight version "n". `mask`: what earlier versions sampled
    is out of the loss. Some samples must carry tokens of several versions.
    """
    calls = calls_by_session(engine)
    resumed = [_check_sample(s, calls, n, mask) for n, some in enumerate(rollouts) for s in some]
    assert any(resumed)


def _check_sample(sample: Any, calls: Calls, number: int, mask: bool) -> bool:
    versions, episode = check_alignment(sample, calls), record.episode_of(sample)
    lost = episode.end in LOST
    assert record.credit_of(sample).included is not lost
    assert sample.remove_sample is lost
    for turn in episode.turns:
        assert set(turn.weight_versions) >= set(versions[slice(*turn.span)])
    if lost:
        return False
    assert not episode.turns[-1].observation_tokens  # routing replay needs a sampled last token
    trained = [v == str(number) or (v != "" and not mask) for v in versions]
    assert sample.loss_mask == list(map(int, trained))
    return len(set(versions) - {""}) > 1


def check_credits(samples: Sequence[Any], steps: Sequence[int]) -> None:
    """Credits are those of the peers that were not lost, alone, at one of the training `steps`.

    The run must have `RAMP` under `spader.reward`.
    """
    for _, group in groupby(samples, lambda sample: sample.group_index):
        left = [sample for sample in group if not sample.remove_sample]
        if left:
            episodes = [record.episode_of(sample) for sample in left]
            found = [record.credit_of(sample) for sample in left]
            label, config = left[0].label, SpaderConfig(reward=RewardConfig(**RAMP))
            assert any(found == assign_credit(episodes, label, config, step) for step in steps)


def check_train_data(samples: Sequence[Any], data: dict[str, Any]) -> None:
    """What goes to the trainers: every decision step's advantage on its tokens, 0 elsewhere."""
    for place, sample in enumerate(samples):
        length, credit = sample.response_length, record.credit_of(sample)
        expected = np.zeros(length, np.float32)
        for span, advantage in zip(
            record.episode_of(sample).step_spans, credit.advantages_S, strict=True
        ):
            expected[slice(*span)] = advantage
        assert np.array_equal(data["rewards"][place], expected)
        assert data["response_lengths"][place] == length > 0
        assert list(data["tokens"][place]) == sample.tokens
        assert list(data["loss_masks"][place]) == sample.loss_mask
        assert len(data["rollout_log_probs"][place]) == length
        assert int(data["rollout_mask_sums"][place]) == sum(sample.loss_mask)
        assert not (sample.remove_sample and (any(sample.loss_mask) or expected.any()))
