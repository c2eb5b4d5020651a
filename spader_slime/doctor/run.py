"""Runs all checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from spader_slime.doctor.checks import CHECKS, Check
from spader_slime.doctor.facts import Facts
from spader_slime.doctor.findings import Finding, error, warning
from spader_slime.doctor.gather import gather
from spader_slime.errors import SpaderError


def examine(config_path: Path, slime_args: Sequence[str] = ()) -> list[Finding]:
    """Everything that the checks find, in their order.

    Args:
        config_path: the file of --custom-config-path.
        slime_args: slime's command line; without it only config, search and machine are checked.
    """
    return judge(gather(config_path, slime_args))


def judge(facts: Facts, checks: Sequence[Check] = CHECKS) -> list[Finding]:
    """What these checks find in the facts."""
    return [finding for check in checks for finding in _found(check, facts)]


def _found(check: Check, facts: Facts) -> Iterator[Finding]:
    if check.needs_flags and not facts.flags.values:
        return
    try:
        for finding in check.run(facts):
            yield replace(finding, theme=check.theme)
    except SpaderError as fault:
        made = error(check.theme, fault, "correct this; the rest of this check was left out")
        yield replace(made, theme=check.theme)
    except Exception as fault:  # a fault of the doctor must not hide what the other checks find
        value = f"{type(fault).__name__}: {fault}"
        made = warning(check.theme, value, "the check itself failed: please report this")
        yield replace(made, theme=check.theme)
