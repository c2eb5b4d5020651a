"""From samples to metrics: questions, their samples, and the tiers of their answers."""

from __future__ import annotations

from typing import Any

import pytest
from support.episodes import GOLD, credited, episode

from spader_slime import record
from spader_slime.episode import Episode
from spader_slime.errors import DataError
from spader_slime.local.sample import Sample
from spader_slime.metrics import evaluated, named_metrics, trained

TIERS = ["head", "tail", "tail", None]
FEW = episode(["Oslo"], answer=["Oslo"])
MORE = episode(["Oslo"], ["Tromsø"], answer=["Oslo", "Bjørgvin"])


def sampled(made: Episode, prompt: str, alone: bool, **metadata: Any) -> Sample:
    sample = Sample(prompt=prompt, label=GOLD, metadata=metadata)
    record.close_episode(sample, made, evaluation=alone)
    record.store_credit(sample, credited(made)[0][1])
    return sample


def test_an_evaluation_is_counted_by_question_and_data_set() -> None:
    samples = [sampled(made, prompt, True) for prompt in "ab" for made in (FEW, MORE)]
    data = {"dev": {"samples": samples}, "test": {"samples": samples[:1]}}
    found = named_metrics(evaluated(data))
    assert found["eval/dev/spader/episodes"] == 4 and found["eval/test/spader/episodes"] == 1
    assert found["eval/dev/spader/seen_share"] == pytest.approx((1 / 4 + 2 / 4) / 2)
    assert found["eval/dev/spader/union_share"] == pytest.approx(2 / 4)
    assert found["eval/test/spader/union_share"] == pytest.approx(1 / 4)
    assert found["eval/dev/spader/group_size"] == 2
    assert found["eval/dev/spader/peer_overlap"] == pytest.approx((1 + 1 / 2) / 2)


def test_recall_by_tier_counts_the_answers_that_have_one() -> None:
    group = [sampled(made, "a", False, tiers=TIERS) for made in (FEW, MORE)]
    other = [sampled(MORE, "b", False)]
    found = named_metrics(trained([group, other]))
    assert found["spader/recall_head"] == 1.0
    assert found["spader/recall_tail"] == pytest.approx((0 + 1 / 2) / 2)
    assert not any("None" in name for name in found)


def test_an_answer_in_a_bad_format_names_nothing() -> None:
    spoilt = episode(["Oslo"], answer=["Oslo"])
    spoilt.end = type(spoilt.end).INVALID
    found = named_metrics(trained([[sampled(spoilt, "a", False, tiers=TIERS)]]))
    assert found["spader/recall_head"] == 0.0 and found["spader/valid"] == 0.0


def test_tiers_must_fit_the_answers() -> None:
    with pytest.raises(DataError, match="1 tiers for 4 answers"):
        trained([[sampled(FEW, "a", False, tiers=["head"])]])
