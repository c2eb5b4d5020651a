"""All checks, one file per theme: each reads the facts and yields findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spader_slime.doctor.checks import (
    batch,
    budget,
    checkpoints,
    config,
    data,
    flags,
    hooks,
    loss,
    machine,
    model,
    parallel,
    rollout,
    search,
    teacher,
    template,
)
from spader_slime.doctor.facts import Facts
from spader_slime.doctor.findings import Finding

__all__ = ["CHECKS", "Check"]


@dataclass(frozen=True)
class Check:
    """A check by its theme; one that needs flags is left out where no command line is given."""

    theme: str
    run: Callable[[Facts], Iterator[Finding]]
    needs_flags: bool = True


CHECKS = (
    Check("config", config.check, needs_flags=False),
    Check("flags", flags.check, needs_flags=False),
    Check("hooks", hooks.check),
    Check("rollout", rollout.check),
    Check("loss", loss.check),
    Check("data", data.check),
    Check("template", template.check),
    Check("search", search.check, needs_flags=False),
    Check("teacher", teacher.check),
    Check("budget", budget.check),
    Check("model", model.check),
    Check("parallel", parallel.check),
    Check("batch", batch.check),
    Check("checkpoints", checkpoints.check),
    Check("machine", machine.check, needs_flags=False),
)
