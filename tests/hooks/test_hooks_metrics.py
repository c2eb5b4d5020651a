"""Metrics against values worked out by hand."""

from __future__ import annotations

import math

import pytest
from support.episodes import episode, graded

from spader_slime.episode import End, Episode
from spader_slime.errors import TooManyFailuresError
from spader_slime.metrics import check_failures, named_metrics, rollout_metrics

TIMEOUT = Episode(end=End.INFRASTRUCTURE, error="search timeout: no answer\nin 5 s")


def two_peers() -> dict[str, float]:
    full = episode(["Oslo"], ["Oslo", "Bergen"], answer=["Oslo", "Bergen"])
    short = episode(["Oslo"], answer=["Oslo", "Rome"], cut=True)
    return rollout_metrics([graded(full, short)])


def test_scores_are_means_over_the_trained_episodes() -> None:
    found = two_peers()
    assert found["spader/recall"] == pytest.approx((0.5 + 0.25) / 2)
    assert found["spader/precision"] == pytest.approx((1.0 + 0.5) / 2)
    assert found["spader/f1"] == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert found["spader/answer_reward"] == pytest.approx(0.5)
    assert found["spader/valid"] == 1.0
    assert found["spader/end/answered"] == 1.0 and found["spader/invalid_format"] == 0.0


def test_behaviour_is_counted_per_trajectory() -> None:
    found = two_peers()
    assert found["spader/turns"] == 2.5
    assert found["spader/calls"] == found["spader/queries"] == found["spader/searches"] == 1.5
    assert found["spader/sampled_tokens"] == 2 * 2.5
    assert found["spader/observation_tokens"] == 4.5
    assert found["spader/observations_cut"] == pytest.approx(1 / 3)
    assert found["spader/response_tokens"] == pytest.approx((2 * 3 + 3 * 2 + 2 * 2 + 3) / 2)


def test_exploration_and_peers() -> None:
    found = two_peers()
    assert found["spader/new_entities_per_step"] == pytest.approx(3 / 5)
    assert found["spader/entities_seen"] == 1.5
    assert found["spader/seen_share"] == pytest.approx(1.5 / 4)
    assert found["spader/union_entities"] == 2.0 and found["spader/union_share"] == 0.5
    assert found["spader/peer_overlap"] == pytest.approx((0.5 + 1.0) / 2)
    shared, alone = 4 * math.exp(-1.0), 4.0
    novelty = 2 * shared / 4 + alone / 4
    total = novelty + 3 * 1.0 / 4 + 2 / 3 + 1 / 3
    assert found["spader/novelty_share"] == pytest.approx(novelty / total)
    assert found["spader/reward"] == pytest.approx(total / 2)


def test_advantages_and_live_peers_by_step() -> None:
    found = two_peers()
    assert [found[f"spader/live_peers/step_{s}"] for s in (1, 2, 3)] == [2, 2, 1]
    assert found["spader/advantage_mean/step_1"] == pytest.approx(0, abs=1e-9)
    assert found["spader/advantage_std/step_1"] == pytest.approx(1, abs=1e-4)
    assert "spader/advantage_mean/step_4" not in found


def test_failed_episodes_count_as_failures_only() -> None:
    whole = episode(["Oslo"], answer=["Oslo"], search_s=0.5)
    broken = {"search_error": "timeout", "search_s": 5.0, "observation_tokens": 0}
    lost = episode(["Bergen"], end=End.INFRASTRUCTURE, **broken)
    found = rollout_metrics([graded(whole, lost)])
    assert found["spader/recall"] == 0.25
    assert found["spader/union_entities"] == 1.0 and found["spader/peer_overlap"] == 0.0
    assert found["spader/failed/share"] == 0.5 and found["spader/failed/infrastructure"] == 1
    assert found["spader/failed/search_timeout"] == 1 and found["spader/failed/engine"] == 0
    assert found["spader/search_errors/timeout"] == 1 and found["spader/search_errors/status"] == 0
    assert found["spader/searches_total"] == 2
    assert found["spader/search_latency_p50"] == pytest.approx(2.75)
    assert found["spader/search_latency_p99"] == pytest.approx(4.955)


def test_lost_episodes_are_counted_by_cause() -> None:
    refused = Episode(end=End.INFRASTRUCTURE, error="engine status: 400")
    found = rollout_metrics([graded(refused, Episode(end=End.ABORTED), Episode(end=End.ABORTED))])
    assert found["spader/failed/engine"] == 1 and found["spader/failed/aborted"] == 2
    assert found["spader/failed/infrastructure"] == 1 and found["spader/failed/share"] == 1.0


def test_without_peers_there_are_no_advantages() -> None:
    found = rollout_metrics([graded(episode(["Oslo"], answer=["Oslo"]))])
    assert [name for name in found if "step_" in name] == []


def test_weight_versions_within_a_group() -> None:
    peers = [episode(["Oslo"], answer=["Oslo"], weight_versions=(v,)) for v in ("3", "5")]
    mixed = rollout_metrics([graded(*peers), graded(peers[0], peers[0])])
    assert mixed["spader/weight_version_spread"] == 1.0  # mean of 2 and 0
    assert mixed["spader/mixed_weight_groups"] == 0.5
    names = [episode(["Oslo"], answer=["Oslo"], weight_versions=(v,)) for v in ("a", "b")]
    assert rollout_metrics([graded(*names)])["spader/weight_version_spread"] == 1.0


def test_cost_follows_the_schedule() -> None:
    peers = graded(episode(["Oslo"], answer=["Oslo"]), step=150)
    assert rollout_metrics([peers])["spader/cost"] == pytest.approx(0.005)


def test_nothing_survived_still_gives_finite_numbers() -> None:
    found = rollout_metrics([graded(TIMEOUT, TIMEOUT), []])
    assert all(math.isfinite(value) for value in found.values())
    assert found["spader/failed/share"] == 1.0 and found["spader/recall"] == 0.0


def test_results_keep_their_names() -> None:
    group = graded(episode(["Oslo"], answer=["Oslo"]))
    found = named_metrics({"": [group], "eval/dev/": [group]})
    assert found["spader/recall"] == found["eval/dev/spader/recall"] == 0.25


def test_the_limit_names_share_and_reasons_in_one_line() -> None:
    fine = episode(["Oslo"], answer=["Oslo"])
    results = {"": [graded(fine, fine, TIMEOUT, TIMEOUT)]}
    check_failures(results, 0.5)
    with pytest.raises(TooManyFailuresError) as caught:
        check_failures(results, 0.49)
    assert str(caught.value) == (
        "2 of 4 episodes failed (50%, failures.max_share is 49%): "
        "2 x search timeout: no answer in 5 s"
    )
