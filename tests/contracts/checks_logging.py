"""slime's own logging, over the data as our advantage hook leaves them."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module
from math import isclose, isfinite
from typing import Any

from contracts.real_slime import version
from support.step_loss import Data

FLAGS: dict[str, Any] = {
    "log_multi_turn": True, "log_passrate": True, "log_correct_samples": True,
    "rollout_max_response_len": 100, "n_samples_per_prompt": 2, "rollout_batch_size": 4,
    "wandb_always_use_train_step": False,
}  # fmt: skip


def check_logs(
    args: Namespace, rollout_data: dict[str, Any], data: Data, **tokens: list[Any]
) -> None:
    """Every key goes through slime's `log_rollout_data` on every rank; rank 0 has the means.

    Rewards are logged as the answer rewards, whatever the hooks put in their place on the way:
    sample i was given the reward i. `tokens`: further values of tokens, all samples' by key.
    """
    logs, seen = _module(), dict[str, float]()
    logs.logging_utils.log = lambda args, metrics, step_key: seen.update(metrics)
    logs.log_rollout_data(0, Namespace(**(vars(args) | FLAGS)), rollout_data)
    if not seen:
        return  # not the rank that reports
    count = len(data["tokens"])
    expected = {
        "rollout/rewards": (count - 1) / 2,
        "rollout/raw_reward": (count - 1) / 2,
        "rollout/advantages": _mean(data, [rewards[:, 0] for rewards in data["rewards"]]),
        "rollout/rollout_log_probs": _mean(data, data["rollout_log_probs"]),
        "rollout/ref_log_probs": _mean(data, data["ref_log_probs"]),
        "rollout/response_lengths": sum(data["response_lengths"]) / count,
        "passrate/pass@1": 1 / count,
    }
    expected["rollout/returns"] = expected["rollout/advantages"]
    expected |= {f"rollout/{name}": _mean(data, values) for name, values in tokens.items()}
    for name, value in expected.items():
        assert isclose(seen[name], value, rel_tol=1e-5, abs_tol=1e-6), (name, seen[name], value)
    assert all(isfinite(value) for value in seen.values()), seen
    assert "multi_turn/wo_obs_response_length/response_length_mean" in seen


def _module() -> Any:
    home = "slime.backends.megatron_utils.data"
    return import_module("slime.observability.train_metric_utils" if version() == "main" else home)


def _mean(data: Data, values: list[Any]) -> float:
    """slime's mean over rollouts: of each one's trained tokens."""
    rows = zip(values, data["loss_masks"], data["rollout_mask_sums"], strict=True)
    means = [float((v.double() * mask).sum() / max(float(total), 1.0)) for v, mask, total in rows]
    return sum(means) / len(means)
