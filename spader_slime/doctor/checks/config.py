"""The YAML file with the key `spader:`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spader_slime.agent.protocol import make_protocol
from spader_slime.config import SpaderConfig
from spader_slime.doctor.facts import Facts
from spader_slime.doctor.findings import Finding, error, ok, warning


def check(facts: Facts) -> Iterator[Finding]:
    """The file can be read, has no stray keys, and is the one that slime is given."""
    if facts.config.value is None:
        yield error("spader", facts.config.missing, "see docs/configuration.md for every key")
    else:
        yield from _settings(facts.config.value)
    yield from _keys(facts)
    if facts.flags.values:
        yield from _same_file(facts)


def _settings(config: SpaderConfig) -> Iterator[Finding]:
    make_protocol(config.agent)  # reads the prompt file
    agent = config.agent
    if agent.max_turns < 2:
        advice = "one turn can only answer; set it to the searches you want, plus 1"
        yield warning("spader.agent.max_turns", agent.max_turns, advice)
    yield ok("spader", f"{config.estimator}, {agent.protocol}, {config.rollout}")


def _keys(facts: Facts) -> Iterator[Finding]:
    """Every top-level key is set on slime's arguments as it stands, typing errors included."""
    name = facts.config_path.name
    if facts.config.value is not None and "spader" not in facts.keys:
        advice = "put the settings under the key `spader:`; without it all defaults apply"
        yield error(name, f"keys: {', '.join(facts.keys) or 'none'}", advice)
    for key in facts.keys:
        if key != "spader":
            advice = (
                "slime sets this argument unchecked, over the command line: use the flag instead"
            )
            yield warning(f"{name}: {key}", "beside `spader:`", advice)


def _same_file(facts: Facts) -> Iterator[Finding]:
    given = facts.flags.text("custom-config-path")
    if not given:
        advice = f"add --custom-config-path {facts.config_path}; without it all defaults apply"
        yield error("--custom-config-path", "not given", advice)
    elif Path(given).expanduser().resolve() != facts.config_path.resolve():
        advice = f"slime would read another file than the one checked here: {facts.config_path}"
        yield error("--custom-config-path", given, advice)
