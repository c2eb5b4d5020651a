"""From a host's samples to what the metrics need of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from spader_slime.algorithms.answers import AnswerKey, as_gold
from spader_slime.errors import DataError
from spader_slime.metrics.common import Graded
from spader_slime.record import TIERS, credit_of, episode_of, lesson_of

Results = dict[str, list[list[Graded]]]


def trained(groups: Sequence[Sequence[Any]]) -> Results:
    """A training rollout by group, under the empty name."""
    return {"": [graded(group) for group in groups]}


def evaluated(data: dict[str, dict[str, Any]]) -> Results:
    """An evaluation by question, under `eval/<dataset>/`; a question's samples stand together."""
    return {
        f"eval/{name}/": [graded(list(same)) for _, same in groupby(result["samples"], _question)]
        for name, result in data.items()
    }


def _question(sample: Any) -> str:
    return str(sample.prompt)


def graded(samples: Sequence[Any]) -> list[Graded]:
    """What the metrics need of all samples of one question."""
    keys = _tier_keys(samples[0])
    return [_graded(sample, keys) for sample in samples]


def _graded(sample: Any, keys: dict[str, AnswerKey]) -> Graded:
    episode = episode_of(sample)
    answer = episode.answer if episode.answered else None
    recalls = {tier: key.score(answer).recall for tier, key in keys.items()}
    return Graded(episode, credit_of(sample), recalls, lesson_of(sample))


def _tier_keys(sample: Any) -> dict[str, AnswerKey]:
    tiers = (sample.metadata or {}).get(TIERS)
    if not tiers:
        return {}
    gold = as_gold(sample.label)
    if len(tiers) != len(gold):
        raise DataError(f"sample {sample.index}: {len(tiers)} tiers for {len(gold)} answers")
    return {
        name: AnswerKey([entity for entity, tier in zip(gold, tiers, strict=True) if tier == name])
        for name in dict.fromkeys(tiers)
        if name is not None
    }
