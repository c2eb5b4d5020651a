"""What the loss hook refuses, when it says so, and how decision steps come to it."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest
import torch
from support.episodes import episode

from spader_slime import adapter, hooks, record
from spader_slime.algorithms.credit import assign_credit
from spader_slime.config import SpaderConfig
from spader_slime.errors import ConfigError, DataError
from spader_slime.local.arguments import host_args
from spader_slime.local.sample import Sample
from spader_slime.megatron.decision_steps import OUTSIDE, steps_of

GOLD = [["Oslo"], ["Bergen"]]
STEPS = {"loss": {"ratio": "step", "aggregate": "token"}}
BY_STEP = {"loss": {"ratio": "token", "aggregate": "step"}}
REFUSED: list[tuple[str, Any, dict[str, Any]]] = [
    (name, value, options)
    for options in (STEPS, BY_STEP)
    for name, value in (
        ("use_tis", True),
        ("get_mismatch_metrics", True),
        ("use_opsm", True),
        ("custom_pg_loss_reducer_function_path", "package.reducer"),
        ("advantage_estimator", "gspo"),
        ("advantage_estimator", "cispo"),
        ("eps_clip_c", 1.0),
        ("loss_type", "policy_loss"),
    )
] + [("calculate_per_token_loss", True, BY_STEP)]


def slime_args(**changes: Any) -> Namespace:
    values = {"loss_type": "custom_loss", "advantage_estimator": "grpo", "eps_clip_c": None}
    return Namespace(**(values | {"calculate_per_token_loss": False} | changes))


@pytest.mark.parametrize(("name", "value", "options"), REFUSED)
def test_a_flag_that_does_not_go_with_step_options_is_refused_at_once(
    name: str, value: Any, options: dict[str, Any]
) -> None:
    args = slime_args(spader=options, **{name: value})
    starts = (
        lambda: hooks.generate_rollout(args, 0, None),
        lambda: hooks.post_process_rewards(args, []),
        lambda: hooks.policy_loss(args, {}, torch.zeros(1, 1, 2), None),
    )
    for start in starts:
        with pytest.raises(ConfigError, match=f"'{name}'.*spader.loss ratio"):
            start()


@pytest.mark.parametrize(("name", "value", "options"), REFUSED)
def test_slimes_own_loss_takes_every_flag(
    name: str, value: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "policy_loss", lambda *inputs: inputs)
    args, inputs = slime_args(spader=None, **{name: value}), ({}, torch.zeros(1, 1, 2), len)
    assert hooks.policy_loss(args, *inputs) == (args, *inputs)


def test_a_ratio_by_step_goes_with_a_loss_per_token() -> None:
    args = slime_args(spader=STEPS, calculate_per_token_loss=True)
    assert hooks.post_process_rewards(args, []) == ([], [])


def test_the_embedded_host_has_no_such_flags() -> None:
    args = host_args(sglang_router_port=1, spader=STEPS)
    assert hooks.post_process_rewards(args, []) == ([], [])


def test_without_the_advantage_hook_the_loss_says_what_is_missing() -> None:
    batch = {"returns": [torch.zeros(3)]}
    with pytest.raises(DataError, match=r"decision_steps.*hooks\.compute_advantages"):
        hooks.policy_loss(slime_args(spader=STEPS), batch, torch.zeros(1, 1, 2), None)


def test_decision_steps_travel_beside_the_advantages() -> None:
    """One column more where the loss needs it, and gone again before anybody logs it."""
    made = [episode(["Oslo"], answer=["Oslo"]), episode(answer=["Bergen"])]
    credits = assign_credit(made, GOLD, SpaderConfig(), 0)
    samples = []
    for index, (one, credit) in enumerate(zip(made, credits, strict=True)):
        sample = Sample(index=index, tokens=one.prompt_ids + one.response_ids, reward=credit.reward)
        sample.response_length, sample.loss_mask = len(one.response_ids), list(one.loss_mask)
        record.close_episode(sample, one, evaluation=False)
        record.store_credit(sample, credit)
        samples.append(sample)
    _, plain = hooks.post_process_rewards(slime_args(spader=None), samples)
    raw, both = hooks.post_process_rewards(slime_args(spader=STEPS), samples)
    assert [values.shape for values in plain] == [(7,), (2,)]
    assert all(torch.equal(b[:, 0], p) for b, p in zip(both, plain, strict=True))
    assert both[0][:, 1].tolist() == [1, 1, 0, 0, 0, 2, 2]

    data: dict[str, Any] = {
        "tokens": [torch.tensor(sample.tokens) for sample in samples],
        "total_lengths": [len(sample.tokens) for sample in samples],
        "response_lengths": [sample.response_length for sample in samples],
        "loss_masks": [torch.tensor(sample.loss_mask) for sample in samples],
        "rewards": both,
        "raw_reward": raw,
        "partition": [0, 1],
    }
    hooks.compute_advantages(slime_args(spader=STEPS), data)
    assert (
        data["rewards"] == raw and list(map(torch.equal, data["advantages"], plain)) == [True] * 2
    )
    first, second = steps_of(data["returns"])
    assert first.step_T.tolist() == [0, 0, OUTSIDE, OUTSIDE, OUTSIDE, 1, 1]
    assert first.counts_S.tolist() == [2, 2] and second.counts_S.tolist() == [2]
