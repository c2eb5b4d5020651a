"""What distillation refuses, when it says so, and what it goes with."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.lessons import distilling

from spader_slime import hooks
from spader_slime.config import DistillationConfig, load_spader
from spader_slime.errors import ConfigError
from spader_slime.local.arguments import host_args
from spader_slime.loss_options import distillation_options, loss_options


def slime_args(options: dict[str, Any], **changes: Any) -> Namespace:
    """slime's flags as a distillation with our reverse KL wants them."""
    values = {"loss_type": "custom_loss", "use_opd": False, "opd_type": None, "rollout_top_p": 1.0}
    return Namespace(**(values | {"spader": options} | changes))


KEEP, OPD = distilling(tail="keep"), distilling(reverse="opd")
REVERSE_ONLY = distilling(forward_kl_coef=0.0)
SGLANG = {"use_opd": True, "opd_type": "sglang"}
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "subtracted twice": (distilling(), SGLANG, "use_opd"),
    "never subtracted": (OPD, {}, "use_opd"),
    "slime's own teacher": (OPD, {"use_opd": True, "opd_type": "megatron"}, "opd_type"),
    "subtracted at another scale": (OPD, SGLANG | {"opd_kl_coef": 0.5}, "opd_kl_coef"),
    "forward KL without our loss": (distilling(), {"loss_type": "policy_loss"}, "loss_type"),
    "opd without our loss": (OPD, SGLANG | {"loss_type": "policy_loss"}, "loss_type"),
    "all-gather": (distilling(), {"allgather_cp": True}, "allgather_cp"),
    "tail of a nucleus": (KEEP, {"rollout_top_p": 0.9}, "rollout_top_p"),
    "tail with TIS": (KEEP, {"use_tis": True}, "use_tis"),
    "tail with OPSM": (KEEP, {"use_opsm": True}, "use_opsm"),
    "tail with GSPO": (KEEP, {"advantage_estimator": "gspo"}, "advantage_estimator"),
}
TAKEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ours": (distilling(), {}),
    "slime's": (OPD, SGLANG),
    "slime's, at our scale": (
        distilling(reverse="opd", reverse_kl_coef=0.5),
        SGLANG | {"opd_kl_coef": 0.5},
    ),
    "tail": (KEEP, {}),
    "without a tail all of slime's corrections": (
        distilling(),
        {"use_tis": True, "rollout_top_p": 0.9, "advantage_estimator": "gspo"},
    ),
    "reverse KL alone": (REVERSE_ONLY, {"loss_type": "policy_loss", "allgather_cp": True}),
    "no teacher": ({}, {"use_opd": True, "opd_type": "megatron", "loss_type": "policy_loss"}),
}
STARTS: list[Callable[[Namespace], Any]] = [
    lambda args: hooks.generate_rollout(args, 0, None),
    lambda args: hooks.post_process_rewards(args, []),
    lambda args: hooks.policy_loss(args, {}, torch.zeros(1, 1, 2), None),
]


@pytest.mark.parametrize("start", STARTS, ids=["rollout", "rewards", "loss"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_flag_that_contradicts_it_is_refused_at_once(
    name: str, start: Callable[[Namespace], Any]
) -> None:
    options, flags, flag = REFUSED[name]
    with pytest.raises(ConfigError, match=f"'{flag}'.*with spader.distillation"):
        start(slime_args(options, **flags))


@pytest.mark.parametrize("name", TAKEN)
def test_what_goes_together_is_taken(name: str) -> None:
    options, flags = TAKEN[name]
    loss_options(slime_args(options, **flags))


def test_step_options_are_named_where_they_are_the_reason() -> None:
    options = distilling() | {"loss": {"ratio": "step"}}
    with pytest.raises(ConfigError, match=r"'use_tis'.*spader.loss ratio: step"):
        loss_options(slime_args(options, use_tis=True))


@pytest.mark.parametrize("options", [distilling(), OPD, KEEP, distilling(task_reward=False)])
def test_the_embedded_host_has_no_such_flags(options: dict[str, Any]) -> None:
    assert hooks.post_process_rewards(host_args(sglang_router_port=1, spader=options), []) == (
        [],
        [],
    )


def test_without_a_teacher_there_has_to_be_a_reward() -> None:
    args = slime_args({"distillation": {"task_reward": False}})
    with pytest.raises(ConfigError, match=r"'spader.distillation.task_reward'.*True without urls"):
        distillation_options(args)
    with pytest.raises(ConfigError, match="task_reward"):
        hooks.generate_rollout(args, 0, None)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"entropy_threshold": 0.5, "entropy_quantile": 0.8}, "entropy_quantile"),
        ({"entropy_threshold": -0.1}, "entropy_threshold"),
        ({"entropy_quantile": 1.1}, "entropy_quantile"),
        ({"top_k": 0}, "top_k"),
        ({"tail": "cut"}, "tail"),
        ({"reverse": "both"}, "reverse"),
        ({"forward_kl_coef": -1.0}, "forward_kl_coef"),
        ({"reverse_kl_coef": float("nan")}, "reverse_kl_coef"),
        ({"max_lost_share": 2.0}, "max_lost_share"),
        ({"threshold": 1.0}, "threshold"),
        ({"urls": "http://a"}, "urls"),
    ],
)
def test_bad_values_are_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=f"spader.distillation.{field}"):
        load_spader({"distillation": options})


def test_how_tokens_are_gated() -> None:
    asked: list[tuple[dict[str, Any], float | None]] = [
        ({}, 0.8),
        ({"entropy_quantile": 0.5}, 0.5),
        ({"entropy_quantile": 0.0}, 0.0),
        ({"entropy_threshold": 0.0}, None),
    ]
    for options, quantile in asked:
        assert load_spader({"distillation": options}).distillation.quantile == quantile
    assert not DistillationConfig().active and DistillationConfig(urls=["http://a"]).active
