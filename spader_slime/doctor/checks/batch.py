"""Batch arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

from spader_slime.doctor.facts import Facts
from spader_slime.doctor.findings import Finding, error, ok, warning
from spader_slime.doctor.flags import Flags
from spader_slime.doctor.sizes import read_sizes


def check(facts: Facts) -> Iterator[Finding]:
    """Rollouts divide into steps, steps into ranks and micro-batches."""
    flags = facts.flags
    prompts = flags.integer("rollout-batch-size")
    if prompts is None:
        yield error("--rollout-batch-size", "not given", "add it: prompts per iteration")
        return
    samples = prompts * flags.count("n-samples-per-prompt", 1)
    batch = _batch(flags, samples)
    findings = [
        *_steps(flags, samples, batch),
        *_ranks(flags, batch),
        *_sampling(flags, prompts),
        *_micro(flags),
        *_length(flags),
    ]
    steps = samples // batch if batch else 1
    yield from findings or [ok("batch", f"{samples} samples, {steps} optimizer steps each")]


def _batch(flags: Flags, samples: int) -> int:
    """Samples of an optimizer step; 0 where the flags don't say."""
    steps = flags.integer("num-steps-per-rollout")
    batch = samples // steps if steps else 0
    return flags.integer("global-batch-size", batch) or 0


def _steps(flags: Flags, samples: int, batch: int) -> Iterator[Finding]:
    steps = flags.integer("num-steps-per-rollout")
    if not batch:
        advice = f"give it: {samples} for one optimizer step per iteration, a part for more"
        yield error("--global-batch-size", "not given", advice)
    elif steps and samples // steps != batch:
        advice = f"leave out one of the two: {samples} samples in {steps} steps make"
        yield error("--global-batch-size", batch, f"{advice} {samples // steps}")
    elif samples % batch:
        advice = f"it has to divide {samples} samples (prompts x samples per prompt)"
        lost = f"; slime drops the last {samples % batch}" if samples > batch else ""
        yield error("--global-batch-size", batch, advice + lost)


def _ranks(flags: Flags, batch: int) -> Iterator[Finding]:
    ranks, micro = read_sizes(flags).data, flags.count("micro-batch-size", 1)
    if batch and ranks and batch % (ranks * micro):
        advice = f"it has to divide by {ranks} data-parallel ranks x micro-batch size {micro}"
        yield error("--global-batch-size", batch, advice)


def _sampling(flags: Flags, prompts: int) -> Iterator[Finding]:
    over = flags.integer("over-sampling-batch-size")
    if over is not None and over < prompts:
        advice = f"at least --rollout-batch-size {prompts}"
        yield error("--over-sampling-batch-size", over, advice)


def _micro(flags: Flags) -> Iterator[Finding]:
    if flags.on("use-dynamic-batch-size") and flags.integer("max-tokens-per-gpu") is None:
        advice = "give it: --use-dynamic-batch-size packs up to so many tokens"
        yield error("--max-tokens-per-gpu", "not given", advice)
    if flags.on("balance-by-flops") and not flags.on("use-dynamic-batch-size"):
        yield error("--balance-by-flops", "given", "it needs --use-dynamic-batch-size")
    if flags.integer("num-rollout") is None and flags.integer("num-epoch") is None:
        yield error("--num-rollout", "not given", "say how long to train: this or --num-epoch")
    if flags.on("eval-interval") and not flags.on("eval-prompt-data") | flags.on("eval-config"):
        advice = "no data to evaluate on: give --eval-prompt-data NAME FILE"
        yield error("--eval-interval", flags.text("eval-interval"), advice)


def _length(flags: Flags) -> Iterator[Finding]:
    packed, response = (
        flags.integer("max-tokens-per-gpu"),
        flags.integer("rollout-max-response-len"),
    )
    if not flags.on("use-dynamic-batch-size") or packed is None or response is None:
        return
    context = read_sizes(flags).context
    if packed * context < response:
        advice = (
            f"a response of {response} tokens goes over {packed} x {context} (context parallel): "
            "memory may run out; raise it or --context-parallel-size"
        )
        yield warning("--max-tokens-per-gpu", packed, advice)
