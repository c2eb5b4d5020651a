"""Loss and advantages."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from spader_slime.config import SpaderConfig
from spader_slime.doctor.facts import Facts
from spader_slime.doctor.findings import Finding, error, ok, warning
from spader_slime.doctor.flags import Flags
from spader_slime.errors import ConfigError
from spader_slime.loss_options import loss_options, needs_lesson, needs_steps

POLICY_LOSS = "spader_slime.hooks.policy_loss"
SWITCHES = (
    "use-tis", "get-mismatch-metrics", "use-opsm", "calculate-per-token-loss", "use-opd",
    "allgather-cp",
)  # fmt: skip


def check(facts: Facts) -> Iterator[Finding]:
    """The loss is the one that the settings ask for, and our advantages reach it unchanged."""
    findings = [*_custom(facts), *_advantages(facts.flags), *_penalty(facts)]
    yield from findings or [ok("loss", facts.flags.text("loss-type") or "policy_loss")]


def _custom(facts: Facts) -> Iterator[Finding]:
    flags, config = facts.flags, facts.config.value
    kind, path = flags.text("loss-type") or "policy_loss", flags.text("custom-loss-function-path")
    needed = f"--loss-type custom_loss --custom-loss-function-path {POLICY_LOSS}"
    if kind == "sft_loss":
        yield error("--loss-type", kind, "policy_loss, or custom_loss with ours")
    elif kind == "custom_loss" and not path:
        yield error("--custom-loss-function-path", "not given", f"add it: {needed}")
    elif config is not None:
        yield from _path(kind, path, config)
    if config is not None:
        yield from _conflicts(flags, config)


def _path(kind: str, path: str | None, config: SpaderConfig) -> Iterator[Finding]:
    """Ours where the settings need it; launch/ gives it with any teacher."""
    name, teacher = "--custom-loss-function-path", config.distillation
    steps = needs_steps(config.loss)
    if path == POLICY_LOSS and not (steps or teacher.active):
        advice = "leave it out: the same loss, and one forward pass less per iteration"
        yield warning(name, path, advice)
    elif kind == "custom_loss" and path != POLICY_LOSS and (steps or needs_lesson(teacher)):
        advice = f"use {POLICY_LOSS}, or call it there: step options and teachers need it"
        yield warning(name, path, advice)


def _conflicts(flags: Flags, config: SpaderConfig) -> Iterator[Finding]:
    """What our own loss refuses when it starts."""
    args = Namespace(
        spader=config,
        loss_type=flags.text("loss-type") or "policy_loss",
        advantage_estimator=flags.text("advantage-estimator"),
        opd_type=flags.text("opd-type"),
        rollout_top_p=flags.number("rollout-top-p", 1.0),
        eps_clip_c=flags.number("eps-clip-c"),
        custom_pg_loss_reducer_function_path=flags.text("custom-pg-loss-reducer-function-path"),
        **{name.replace("-", "_"): flags.on(name) for name in SWITCHES},
    )
    try:
        loss_options(args)
    except ConfigError as fault:
        setting = fault.field.startswith("spader.")
        name = fault.field if setting else f"--{fault.field.replace('_', '-')}"
        yield error(name, fault.value, f"it has to be {fault.allowed}")


def _advantages(flags: Flags) -> Iterator[Finding]:
    if flags.on("disable-compute-advantages-and-returns"):
        advice = "leave it out: our advantage hook would never be called"
        yield error("--disable-compute-advantages-and-returns", "given", advice)
    estimator = flags.text("advantage-estimator")
    if estimator == "ppo":
        yield error("--advantage-estimator", "ppo", "use grpo: a critic would train for nothing")
    elif estimator and estimator.startswith("reinforce_plus_plus"):
        yield error("--advantage-estimator", estimator, "use grpo: this one whitens advantages")
    if flags.on("normalize-advantages"):
        advice = "leave it out: slime would whiten over the batch what is already normalized"
        yield warning("--normalize-advantages", "given", advice)


def _penalty(facts: Facts) -> Iterator[Finding]:
    flags = facts.flags
    if flags.number("kl-coef", 0.0):
        advice = "no effect on our advantages: use --use-kl-loss --kl-loss-coef"
        yield warning("--kl-coef", flags.text("kl-coef"), advice)
    if flags.on("use-kl-loss") and not flags.text("ref-load"):
        yield error("--ref-load", "not given", "--use-kl-loss needs the reference model")
    if flags.number("kl-loss-coef", 0.0) and not flags.on("use-kl-loss"):
        yield warning("--kl-loss-coef", flags.text("kl-loss-coef"), "add --use-kl-loss")
