"""Versions and GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spader_slime.doctor.facts import Facts, Machine
from spader_slime.doctor.findings import Finding, error, ok, warning

OLDEST = {"slime": (0, 3, 1)}  # what is needed whatever the model
PYTHONS = ((3, 10), (3, 12))


def check(facts: Facts) -> Iterator[Finding]:
    """What is installed is new enough, and there are as many GPUs as the trainer wants."""
    yield from _python(facts.machine)
    yield from _versions(facts.machine)
    if facts.flags.values:
        yield from _gpus(facts)


def _python(machine: Machine) -> Iterator[Finding]:
    version = ".".join(map(str, machine.python))
    low, high = PYTHONS
    if low <= machine.python <= high:
        yield ok("python", version)
    else:
        yield warning("python", version, "tested with 3.10 to 3.12")


def _versions(machine: Machine) -> Iterator[Finding]:
    for name, version in machine.versions.items():
        oldest = OLDEST.get(name)
        if oldest is not None and _numbers(version) and _numbers(version) < oldest:
            wanted = ".".join(map(str, oldest))
            yield error(name, version, f"at least {wanted}: older ones lack what our hooks need")
        elif not version:
            yield ok(name, "not in this Python", "not checked")
        else:
            yield ok(name, version if version != "?" else "version unknown")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _gpus(facts: Facts) -> Iterator[Finding]:
    gpus, flags = facts.machine.gpus.value, facts.flags
    wanted = flags.count("actor-num-gpus-per-node", 8)
    if gpus is None:
        advice = "not checked: run the doctor on a machine that trains"
        yield warning("GPUs", facts.machine.gpus.missing, advice)
    elif len(gpus) < wanted:
        advice = f"--actor-num-gpus-per-node wants {wanted} on every node"
        yield error("GPUs", len(gpus), advice)
    else:
        yield ok("GPUs", len(gpus))
