"""Sampling, and the loop that runs it."""

from __future__ import annotations

from collections.abc import Iterator

from spader_slime.doctor.facts import Facts
from spader_slime.doctor.findings import Finding, error, ok, warning
from spader_slime.doctor.flags import Flags


def check(facts: Facts) -> Iterator[Finding]:
    """Peers can differ, rewards are read as they are, and the loop fits the driver."""
    findings = [
        *_peers(facts),
        *_rewards(facts.flags),
        *_loop(facts),
        *_partial(facts.flags),
        *_routing(facts),
    ]
    yield from findings or [ok("rollout", facts.flags.driver or "slime's loop")]


def _peers(facts: Facts) -> Iterator[Finding]:
    flags, config = facts.flags, facts.config.value
    peers = flags.count("n-samples-per-prompt", 1)
    if peers == 1 and (config is None or config.distillation.task_reward):
        advice = "at least 2, better 8 to 16: a group of one has no advantage"
        yield error("--n-samples-per-prompt", peers, advice)
    temperature = flags.number("rollout-temperature", 1.0)
    if temperature is not None and temperature <= 0:
        advice = "above 0: greedy peers are all the same"
        yield error("--rollout-temperature", temperature, advice)


def _rewards(flags: Flags) -> Iterator[Finding]:
    for name in ("reward-key", "eval-reward-key", "log-reward-category"):
        if flags.text(name):
            yield error(f"--{name}", flags.text(name), "leave it out: our rewards are numbers")
    if flags.text("custom-convert-samples-to-train-data-path"):
        advice = "it replaces the code that calls our reward post-processing: make it do the same"
        yield warning("--custom-convert-samples-to-train-data-path", "given", advice)
    if flags.on("disable-rollout-global-dataset"):
        advice = "leave it out: slime's loop draws its prompts from --prompt-data"
        yield error("--disable-rollout-global-dataset", "given", advice)


def _loop(facts: Facts) -> Iterator[Finding]:
    flags, config = facts.flags, facts.config.value
    asynchronous = config is not None and config.rollout == "fully_async"
    if flags.on("colocate") and (asynchronous or flags.driver == "train_async.py"):
        advice = "leave it out and give --rollout-num-gpus: engines need GPUs of their own"
        yield error("--colocate", "with asynchronous training", advice)
    if asynchronous and flags.driver == "train.py":
        advice = "use train_async.py: train.py waits for every rollout before it trains"
        yield warning("spader.rollout", "fully_async under train.py", advice)


def _partial(flags: Flags) -> Iterator[Finding]:
    if flags.on("mask-offpolicy-in-partial-rollout") and not flags.on("partial-rollout"):
        advice = "no effect without --partial-rollout"
        yield warning("--mask-offpolicy-in-partial-rollout", "given", advice)


def _routing(facts: Facts) -> Iterator[Finding]:
    model = facts.model.value
    for name in ("use-rollout-routing-replay", "use-routing-replay"):
        if facts.flags.on(name) and model is not None and not model.experts:
            yield error(f"--{name}", model.kind, "leave it out: the model has no experts")
