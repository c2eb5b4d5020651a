"""From the episodes of one group to rewards and advantages of every decision step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spader_slime.algorithms.advantage import step_peer_advantage, trajectory_advantage
from spader_slime.algorithms.answers import AnswerKey, AnswerScore
from spader_slime.algorithms.entities import EntityMatcher
from spader_slime.algorithms.gold import as_gold
from spader_slime.algorithms.reward import (
    GroupReward,
    answer_reward,
    first_seen,
    group_rewards,
)
from spader_slime.config import SpaderConfig
from spader_slime.episode import Episode

_ESTIMATORS = {"spa": step_peer_advantage, "grpo": trajectory_advantage}


@dataclass(frozen=True)
class Credit:
    """What one episode earned. Tuples run over its own decision steps, unpadded.

    Attributes:
        included: False for an episode lost to infrastructure, aborted, or without a decision
            step: it takes no part in baseline and N(e), its rewards and advantages are 0.
        rewards_S: reward of each step, the last one with the final reward.
        advantages_S: advantage of each step.
        returns_S: return-to-go (spa) or the trajectory's summed reward (grpo).
        new_S: gold entities shown for the first time.
        found_S: gold entities shown, new or not.
        novelty_S: part of `rewards_S` given by the novelty premium.
        live_S: peers of the group, this one included, that have this step.
        seen: numbers of the gold entities shown anywhere in the episode, ascending.
        peers: N(e) for each of `seen`.
        overlap: share of `seen` that another peer saw too (0 where nothing was seen).
        score: the final answer against gold; an episode without one scores like an empty list.
        reward: final reward: final_weight * F1, or invalid_format (0 where not included).
        cost: c(step), price of one call at this training step.
    """

    included: bool
    rewards_S: tuple[float, ...]
    advantages_S: tuple[float, ...]
    returns_S: tuple[float, ...]
    new_S: tuple[int, ...]
    found_S: tuple[int, ...]
    novelty_S: tuple[float, ...]
    live_S: tuple[int, ...]
    seen: tuple[int, ...]
    peers: tuple[int, ...]
    overlap: float
    score: AnswerScore
    reward: float
    cost: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types only; `from_dict` is the inverse."""
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {**plain, "score": self.score.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Credit:
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in data.items()
        }
        values["score"] = AnswerScore.from_dict(data["score"])
        return cls(**values)


def assign_credit(
    episodes: Sequence[Episode], gold: Any, config: SpaderConfig, step: int
) -> list[Credit]:
    """Rewards and advantages of one group of peers (SPADER, section 2).

    An entity is found where a document *shown* names it in title or text; what the model wrote
    (queries, thoughts), notes and errors never count. `config.estimator` chooses SPA on step
    rewards or GRPO on their plain sum.

    Args:
        episodes: all peers of one question.
        gold: anything `gold.as_gold` takes.
        step: training step (rollout id), for the cost schedule.

    Returns:
        One `Credit` per episode, in order.

    Raises:
        DataError: bad gold; a negative `step`.
    """
    gold = as_gold(gold)
    key, matcher = AnswerKey(gold), EntityMatcher(gold)
    found_GS = [[matcher.find_in_documents(t.documents) for t in e.turns] for e in episodes]
    scores = [key.score(e.answer if e.answered else None) for e in episodes]
    final = [_final(e, s, config) for e, s in zip(episodes, scores, strict=True)]
    peers = [i for i, e in enumerate(episodes) if e.turns and not e.failed]

    rewards = group_rewards(
        [found_GS[i] for i in peers],
        [[turn.calls for turn in episodes[i].turns] for i in peers],
        [final[i] for i in peers],
        len(gold),
        config.reward,
        step,
    )
    advantages_GS, returns_GS = _ESTIMATORS[config.estimator](
        rewards.rewards_GS, rewards.num_steps_G, np.zeros(len(peers), dtype=int), config.gamma
    )
    tables = _Tables(rewards, advantages_GS, returns_GS)
    rows = {episode: row for row, episode in enumerate(peers)}
    return [
        _credit(found_GS[i], scores[i], final[i], tables, rows.get(i)) for i in range(len(episodes))
    ]


def _final(episode: Episode, score: AnswerScore, config: SpaderConfig) -> float:
    valid = episode.answered and episode.answer is not None
    return answer_reward(score.f1 if valid else None, config.reward)


@dataclass(frozen=True)
class _Tables:
    """What was computed for the included peers, one row each."""

    rewards: GroupReward
    advantages_GS: NDArray[np.float64]
    returns_GS: NDArray[np.float64]

    def live(self, num_steps: int) -> tuple[int, ...]:
        return tuple(int((self.rewards.num_steps_G > t).sum()) for t in range(num_steps))


def _credit(
    found_S: list[set[int]], score: AnswerScore, final: float, tables: _Tables, row: int | None
) -> Credit:
    num_steps, included, group = len(found_S), row is not None, tables.rewards
    seen = sorted(set().union(*found_S))
    peers = group.peers_E[seen].tolist()

    def own(table_GS: NDArray[np.float64]) -> tuple[float, ...]:
        return (0.0,) * num_steps if row is None else tuple(table_GS[row, :num_steps].tolist())

    return Credit(
        included=included,
        rewards_S=own(group.rewards_GS),
        advantages_S=own(tables.advantages_GS),
        returns_S=own(tables.returns_GS),
        new_S=tuple(map(len, first_seen(found_S))),
        found_S=tuple(map(len, found_S)),
        novelty_S=own(group.novelty_GS),
        live_S=tables.live(num_steps),
        seen=tuple(seen),
        peers=tuple(peers),
        overlap=sum(n > included for n in peers) / len(peers) if peers else 0.0,
        score=score,
        reward=final if included else 0.0,
        cost=group.cost,
    )
