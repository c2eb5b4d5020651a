"""The flags that name our hooks."""

from __future__ import annotations

from collections.abc import Iterator

from spader_slime.doctor.facts import Facts
from spader_slime.doctor.findings import Finding, error, ok, warning

NEEDED = {
    "rollout-function-path": "generate_rollout",
    "custom-generate-function-path": "generate",
    "custom-rm-path": "reward",
    "custom-reward-post-process-path": "post_process_rewards",
    "custom-advantage-function-path": "compute_advantages",
}
PATHS = ("function-path", "rm-path", "process-path", "filter-path", "hook-path")
MODULE = "spader_slime.hooks"
FULLY_ASYNC = "slime.rollout.fully_async_rollout.generate_rollout_fully_async"


def check(facts: Facts) -> Iterator[Finding]:
    """All hooks are there, by names that slime can load, and rewards are given to whole groups."""
    findings = [*_paths(facts), *_needed(facts), *_group_reward(facts), *_filter(facts)]
    yield from findings or [ok("hooks", f"{len(NEEDED)} hooks of {MODULE}")]


def _paths(facts: Facts) -> Iterator[Finding]:
    """slime loads `package.module.attribute`; its help text shows another form."""
    for name, words in facts.flags.values.items():
        if not name.endswith(PATHS):
            continue
        for word in words[:1]:
            if ":" in word or "/" in word or word.endswith(".py") or "." not in word:
                yield error(f"--{name}", word, "write it as package.module.function")


def _needed(facts: Facts) -> Iterator[Finding]:
    for name, function in NEEDED.items():
        ours, given = f"{MODULE}.{function}", facts.flags.text(name)
        if given is None:
            yield error(f"--{name}", "not given", f"add --{name} {ours}")
        elif given == FULLY_ASYNC:
            advice = f"use {ours}, and `rollout: fully_async` under `spader:`"
            yield error(f"--{name}", given, advice)
        elif given.startswith(MODULE) and given != ours:
            yield error(f"--{name}", given, f"this hook is {ours}")
        elif given != ours:
            advice = f"not ours: it has to do what {ours} does, or call it"
            yield warning(f"--{name}", given, advice)


def _group_reward(facts: Facts) -> Iterator[Finding]:
    flags = facts.flags
    if not flags.on("group-rm"):
        yield error("--group-rm", "not given", "add --group-rm: peers are rewarded together")
    evaluate = flags.text("eval-function-path")
    if evaluate not in (None, f"{MODULE}.generate_rollout"):
        advice = "leave it out: slime's own evaluation stops under --group-rm, ours takes it off"
        yield error("--eval-function-path", evaluate, advice)


def _filter(facts: Facts) -> Iterator[Finding]:
    given = facts.flags.text("dynamic-sampling-filter-path")
    if given is None:
        return
    ours = f"{MODULE}.keep_informative_group"
    if given != ours:
        advice = f"use {ours}: equal answers may still differ in their searches"
        yield warning("--dynamic-sampling-filter-path", given, advice)
    config = facts.config.value
    if config is not None and config.rollout == "fully_async":
        advice = "leave it out: slime's fully-async loop knows no filter"
        yield warning("--dynamic-sampling-filter-path", "spader.rollout: fully_async", advice)
