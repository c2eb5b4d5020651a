"""From episodes of one group to rewards and advantages."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from support.episodes import GOLD, episode

from spader_slime.algorithms.advantage import step_peer_advantage, trajectory_advantage
from spader_slime.algorithms.credit import Credit, assign_credit
from spader_slime.config import RewardConfig, SpaderConfig
from spader_slime.episode import Document, End, Episode, Turn, TurnKind
from spader_slime.errors import DataError

CONFIG = SpaderConfig()
ONE, TWO = 1 + 4.0, 1 + 4 * math.exp(-1)  # worth of an entity that one or two peers saw


def credits(*episodes: Episode, step: int = 0, **config: Any) -> list[Credit]:
    return assign_credit(list(episodes), GOLD, SpaderConfig(**config), step)


def test_rewards_by_hand() -> None:
    first, second = credits(
        episode(["Oslo", "Oslo"], ["Bergen", "Oslo"], answer=["Oslo", "bjørgvin"]),
        episode(["Oslo", "Hamar"], answer=["Hamar"]),
    )
    assert first.rewards_S == pytest.approx((TWO / 4, ONE / 4, 2 / 3))
    assert second.rewards_S == pytest.approx((TWO / 4, 0.0))
    assert first.new_S == (1, 1, 0) and first.found_S == (1, 2, 0)
    assert first.novelty_S == pytest.approx((math.exp(-1), 1.0, 0.0))
    assert first.live_S == (2, 2, 1) and second.live_S == (2, 2)
    assert first.seen == (0, 1) and first.peers == (2, 1)
    assert first.overlap == 0.5 and second.overlap == 1.0
    assert first.reward == pytest.approx(2 / 3) and first.score.recall == 0.5


def test_calls_cost_what_the_schedule_says() -> None:
    busy = episode(["Oslo"], calls=3, answer=[])
    free, dear = credits(busy, step=0)[0], credits(busy, step=150)[0]
    assert (free.cost, dear.cost) == (0.0, pytest.approx(0.005))
    assert free.rewards_S[0] - dear.rewards_S[0] == pytest.approx(3 * 0.005 / 4)
    assert free.rewards_S[1] == dear.rewards_S[1]


@pytest.mark.parametrize(
    ("estimator", "function"), [("spa", step_peer_advantage), ("grpo", trajectory_advantage)]
)
def test_the_estimator_is_the_function_of_that_name(estimator: str, function: Any) -> None:
    group = (
        episode(["Oslo"], ["Bergen"], answer=["Oslo"]),
        episode(["Oslo"], answer=["Oslo", "Bergen"]),
        episode(["Hamar"], end=End.TURN_LIMIT),
    )
    given = credits(*group, estimator=estimator, gamma=0.5)
    rewards = np.zeros((3, 3))
    for row, credit in enumerate(given):
        rewards[row, : len(credit.rewards_S)] = credit.rewards_S
    advantages, returns = function(rewards, [3, 2, 1], [0, 0, 0], 0.5)
    for row, credit in enumerate(given):
        size = len(credit.rewards_S)
        assert credit.advantages_S == pytest.approx(advantages[row, :size].tolist())
        assert credit.returns_S == pytest.approx(returns[row, :size].tolist())
    if estimator == "grpo":
        assert len(set(given[0].advantages_S)) == 1


@pytest.mark.parametrize("end", [End.INVALID, End.TURN_LIMIT, End.TOKEN_LIMIT])
def test_no_valid_answer_is_punished_on_the_last_step(end: End) -> None:
    searched, never = credits(episode(["Oslo"], ["Bergen"], end=end), episode(["Hamar"], end=end))
    assert searched.rewards_S == pytest.approx((ONE / 4, ONE / 4 - 1.0))
    assert never.rewards_S == (-1.0,) and never.reward == -1.0
    assert never.score.f1 == 0.0 and never.score.num_predicted == 0


def test_an_empty_answer_is_valid_and_worth_nothing() -> None:
    (credit,) = credits(episode(["Hamar"], answer=[]))
    assert credit.rewards_S == (0.0, 0.0) and credit.included


@pytest.mark.parametrize("end", [End.INFRASTRUCTURE, End.ABORTED])
def test_lost_episodes_change_nothing_for_the_others(end: End) -> None:
    good = (episode(["Oslo"], answer=["Oslo"]), episode(["Bergen"], answer=["Oslo"]))
    lost = episode(["Oslo", "Bergen", "Tromsø"], ["Bodø"], end=end)
    assert credits(good[0], lost, good[1])[::2] == credits(*good)
    left_out = credits(good[0], lost, good[1])[1]
    assert not left_out.included and left_out.reward == 0.0
    assert left_out.rewards_S == left_out.advantages_S == left_out.returns_S == (0.0, 0.0)
    assert left_out.seen == (0, 1, 2, 3) and left_out.new_S == (3, 1)
    assert left_out.peers == (1, 1, 0, 0) and left_out.overlap == 0.5


def test_an_episode_without_a_step_is_left_out() -> None:
    good = (episode(["Oslo"], answer=["Oslo"]), episode(["Bergen"], answer=["Oslo"]))
    silent = Episode(end=End.TOKEN_LIMIT)
    given = credits(*good, silent)
    assert given[:2] == credits(*good)
    assert not given[2].included and given[2].rewards_S == given[2].live_S == ()


def test_a_group_lost_as_a_whole() -> None:
    given = credits(*[episode(["Oslo"], end=End.INFRASTRUCTURE)] * 3)
    assert [credit.included for credit in given] == [False] * 3
    assert credits() == []


def test_a_group_of_one_has_no_advantage() -> None:
    (credit,) = credits(episode(["Oslo"], answer=["Oslo"]))
    assert credit.advantages_S == (0.0, 0.0) and credit.rewards_S[0] > 0


def test_peers_in_another_order_get_the_same() -> None:
    group = [
        episode(["Oslo"], ["Bergen"], answer=["Oslo"]),
        episode(["Bodø"], end=End.INVALID),
        episode(answer=["Tromsø", "Bodø"]),
    ]
    given = credits(*group)
    assert credits(*group[::-1])[::-1] == [
        Credit(
            **{
                **vars(credit),
                "advantages_S": pytest.approx(credit.advantages_S),
            }
        )
        for credit in given
    ]


def guessing(queries: list[str], *documents: Document, **fields: Any) -> Episode:
    """A search turn that guesses, then an answer turn that answers nothing."""
    turn = Turn((0, 1), TurnKind.SEARCH, tuple(queries), len(queries), 0, documents, **fields)
    return Episode(turns=[turn, Turn((2, 3), TurnKind.ANSWER)], end=End.ANSWERED, answer=[])


def test_guessing_every_gold_entity_in_queries_earns_nothing() -> None:
    everything = [alias for aliases in GOLD for alias in aliases]
    guess = guessing([*everything, " ".join(everything)], Document("Nothing", "No such place."))
    failed = guessing(everything, search_error="timeout", cut=True)
    for credit in credits(guess, failed):
        assert credit.rewards_S == (0.0, 0.0) and credit.seen == ()
    assert credits(guess, step=500)[0].rewards_S[0] == pytest.approx(-0.01 * 6 / 4)


def test_only_what_is_left_after_cutting_counts() -> None:
    whole = guessing(["q"], Document("Places", "Oslo and Bergen."))
    cut = guessing(["q"], Document("Places", "Oslo and Ber"), cut=True)
    assert [credit.seen for credit in credits(whole, cut)] == [(0, 1), (0,)]


def test_titles_count_and_do_not_run_into_the_text() -> None:
    gold = [["New York"], ["Oslo"]]
    shown = guessing(["q"], Document("Oslo", "x"), Document("New", "York"))
    assert assign_credit([shown], gold, CONFIG, 0)[0].seen == (1,)


def test_weights_and_penalty_come_from_the_configuration() -> None:
    reward = RewardConfig(alpha=2.0, beta=0.0, final_weight=3.0, invalid_format=-0.5)
    right, wrong = credits(
        episode(["Oslo"], answer=["Oslo", "Bergen", "Tromsø", "Bodø"]),
        episode(["Oslo"], end=End.INVALID),
        reward=reward,
    )
    assert right.rewards_S == (0.5, 3.0) and wrong.rewards_S == (0.0,)


def test_credits_survive_json() -> None:
    lost = episode(["Oslo"], end=End.INFRASTRUCTURE)
    for credit in credits(episode(["Oslo"], answer=["Oslo"]), lost, Episode(end=End.ABORTED)):
        assert Credit.from_dict(json.loads(json.dumps(credit.to_dict()))) == credit


def test_numpy_gold_from_parquet() -> None:
    gold = np.array([np.array(aliases, dtype=object) for aliases in GOLD], dtype=object)
    peers = [episode(["Oslo"], answer=["Bjørgvin"])]
    assert assign_credit(peers, gold, CONFIG, 0) == credits(*peers)


@pytest.mark.parametrize(
    ("gold", "step", "says"),
    [("Oslo", 0, "list of alias lists"), ([], 0, "no entity"), (GOLD, -1, "step")],
)
def test_bad_input_is_named(gold: Any, step: int, says: str) -> None:
    with pytest.raises(DataError, match=says):
        assign_credit([episode(["Oslo"], answer=[])], gold, CONFIG, step)
