"""How the command line is written; Megatron's parser passes over what it doesn't know."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from spader_slime.doctor.facts import Facts
from spader_slime.doctor.findings import Finding, error, ok, warning
from spader_slime.doctor.known import SWITCHES, VALUES

MAY_REPEAT = ("rollout-sample-hook-path",)
CLOSE = 0.92  # share of equal letters from which a flag looks like a misspelt one


def check(facts: Facts) -> Iterator[Finding]:
    """Every flag is one that slime may know, once, with its value."""
    flags = facts.flags
    if not flags.values:
        advice = "give slime's command line after --slime-args: most checks need it"
        yield warning("--slime-args", "not given", advice)
        return
    yield from _misspelt(facts)
    for name in flags.repeated:
        if name not in MAY_REPEAT:
            value = " ".join(flags.values[name]) or "(no value)"
            yield ok(f"--{name}", value, "given more than once: this last one counts")
    for name, words in flags.values.items():
        if name in VALUES and not "".join(words):
            yield error(f"--{name}", "no value", "give it one (was a variable empty?)")
    yield ok("command line", f"{len(flags.values)} flags")


def _misspelt(facts: Facts) -> Iterator[Finding]:
    known = [*VALUES, *SWITCHES]
    for name in facts.flags.values:
        if name in known:
            continue
        plain = name.replace("_", "-")
        close = difflib.get_close_matches(plain, known, 1, CLOSE)
        if close:
            advice = f"slime would pass over it without a word; did you mean --{close[0]}?"
            yield error(f"--{name}", "unknown", advice)
