"""Which policy loss a run has asked for, and whether the host's flags go with it."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from spader_slime import adapter
from spader_slime.config import DistillationConfig, LossConfig
from spader_slime.errors import ConfigError

# What corrects or masks single tokens or whole sequences has no meaning, or another one, when
# ratio or aggregate go by decision step.
_OFF = ("use_tis", "get_mismatch_metrics", "use_opsm", "custom_pg_loss_reducer_function_path")
_OTHER_RATIOS = ("gspo", "cispo")


def loss_options(args: Namespace) -> LossConfig:
    """The options under `spader.loss`, checked against the host's flags.

    Raises:
        ConfigError: a step option with a flag that it does not support, or without
            `--loss-type custom_loss`, which would leave it without effect.
    """
    options = adapter.settings(args).loss
    if needs_own_loss(options, distillation_options(args)):
        for name, value, allowed in _conflicts(args, options):
            wanted = f"spader.loss ratio: {options.ratio}, aggregate: {options.aggregate}"
            wanted = wanted if needs_steps(options) else "spader.distillation.tail: keep"
            raise ConfigError(name, value, f"{allowed} with {wanted}")
    return options


def distillation_options(args: Namespace) -> DistillationConfig:
    """The options under `spader.distillation`, checked against the host's flags.

    Raises:
        ConfigError: a flag that contradicts them, or that the forward KL does not support.
    """
    options = adapter.settings(args).distillation
    if not options.task_reward and not options.active:
        raise ConfigError("spader.distillation.task_reward", False, "True without urls")
    for name, value, allowed in _clashes(args, options) if options.active else ():
        raise ConfigError(name, value, f"{allowed} with spader.distillation")
    return options


def needs_own_loss(options: LossConfig, teacher: DistillationConfig) -> bool:
    """The loss is not the host's own: it goes by decision step, or has to know log-probs."""
    return needs_steps(options) or (needs_lesson(teacher) and teacher.tail == "keep")


def needs_lesson(teacher: DistillationConfig) -> bool:
    """The loss has a forward KL to a teacher."""
    return teacher.active and teacher.forward_kl_coef > 0


def needs_steps(options: LossConfig) -> bool:
    """The loss has to know decision steps; without that it is the host's own."""
    return "step" in (options.ratio, options.aggregate)


def _conflicts(args: Namespace, options: LossConfig) -> list[tuple[str, Any, str]]:
    """Argument, value, and what it would have to be."""
    found = [(name, getattr(args, name, None), "nothing") for name in _OFF]
    found = [conflict for conflict in found if conflict[1]]
    estimator = getattr(args, "advantage_estimator", None)
    if estimator in _OTHER_RATIOS:
        found.append(("advantage_estimator", estimator, "grpo"))
    if options.aggregate == "step" and getattr(args, "calculate_per_token_loss", False):
        found.append(("calculate_per_token_loss", True, "False"))
    bound = getattr(args, "eps_clip_c", None)
    if bound is not None and bound <= 1:
        found.append(("eps_clip_c", bound, "a number above 1"))
    return found + _other_loss(args)


def _other_loss(args: Namespace) -> list[tuple[str, Any, str]]:
    kind = getattr(args, "loss_type", "custom_loss")  # the embedded host has no such argument
    path = "custom_loss (and --custom-loss-function-path spader_slime.hooks.policy_loss)"
    return [] if kind == "custom_loss" else [("loss_type", kind, path)]


def _clashes(args: Namespace, options: DistillationConfig) -> list[tuple[str, Any, str]]:
    """As `_conflicts`, of distillation."""
    found = _subtracted_once(args, options)
    if needs_lesson(options):
        found += _other_loss(args)
        if getattr(args, "allgather_cp", False):
            found.append(("allgather_cp", True, "False (forward_kl_coef: 0 goes with it)"))
        nucleus = getattr(args, "rollout_top_p", 1.0)
        if options.tail == "keep" and nucleus != 1.0:
            found.append(("rollout_top_p", nucleus, "1.0 (tail: keep)"))
    return found


def _subtracted_once(args: Namespace, options: DistillationConfig) -> list[tuple[str, Any, str]]:
    """The reverse KL is subtracted once, by us or by slime, and scaled as the config says."""
    theirs = options.reverse == "opd"
    if not hasattr(args, "use_opd"):  # the embedded host
        return []
    if bool(args.use_opd) != theirs:
        return [("use_opd", args.use_opd, f"{theirs} (reverse: {options.reverse})")]
    found: list[tuple[str, Any, str]] = []
    kind, scale = getattr(args, "opd_type", None), getattr(args, "opd_kl_coef", 1.0)
    if theirs and kind != "sglang":
        found.append(("opd_type", kind, "sglang"))
    if theirs and scale != options.reverse_kl_coef:
        found.append(("opd_kl_coef", scale, f"{options.reverse_kl_coef} (reverse_kl_coef)"))
    return found


def student_key(args: Namespace) -> str:
    """Key of the log-probs that slime takes for those of the policy before the update."""
    return "rollout_log_probs" if getattr(args, "use_rollout_logprobs", False) else "log_probs"
