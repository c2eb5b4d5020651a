"""Megatron's model flags against the model's own config.json."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spader_slime.doctor.facts import Facts
from spader_slime.doctor.findings import Finding, error, ok, warning
from spader_slime.doctor.flags import Flags
from spader_slime.doctor.model import ModelShape

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
ADVICE = "take the model's own arguments (slime's scripts/models); config.json says {}"


def check(facts: Facts) -> Iterator[Finding]:
    """Every model flag that is given says what the model's config.json says."""
    model = facts.model.value
    if model is None:
        yield from _no_model(facts)
        return
    findings = [*_sizes(model, facts.flags), *_tied(model, facts.flags)]
    about = f"{model.kind}, about {model.parameters / 1e9:.2g} B parameters"
    yield from findings or [ok("model", about)]


def _no_model(facts: Facts) -> Iterator[Finding]:
    name = facts.flags.text("hf-checkpoint")
    if name and HUB_NAME.fullmatch(name) and facts.paths.get("hf-checkpoint") == "missing":
        advice = "a name on the hub: download it, and name the folder, to have it checked"
        yield warning("--hf-checkpoint", name, advice)
    elif name:
        advice = "point it to the model's folder: sizes can't be checked without it"
        yield error("--hf-checkpoint", facts.model.missing, advice)


def _sizes(model: ModelShape, flags: Flags) -> Iterator[Finding]:
    wanted: dict[str, float | None] = {
        "num-layers": model.layers,
        "hidden-size": model.hidden,
        "num-attention-heads": model.heads,
        "num-query-groups": model.groups,
        "kv-channels": model.head,
        "ffn-hidden-size": None if model.experts else model.ffn,
        "num-experts": model.experts,
        "moe-ffn-hidden-size": model.expert_ffn,
        "vocab-size": model.vocabulary,
        "rotary-base": model.rope_theta,
        "norm-epsilon": model.norm_eps,
    }
    for name, value in wanted.items():
        given = flags.number(name)
        if given is not None and value is not None and given != value:
            yield error(f"--{name}", flags.text(name), ADVICE.format(f"{value:g}"))
    if model.groups != model.heads and flags.on("num-attention-heads"):
        for name in ("group-query-attention", "num-query-groups"):
            if not flags.on(name):
                advice = ADVICE.format(f"{model.groups} key/value heads")
                yield error(f"--{name}", "not given", advice)


def _tied(model: ModelShape, flags: Flags) -> Iterator[Finding]:
    if model.tied is None or not flags.on("num-layers"):  # not described in the flags at all
        return
    untie = "untie-embeddings-and-output-weights"
    if model.tied and flags.on(untie):
        yield error(f"--{untie}", "given", ADVICE.format("tie_word_embeddings: true"))
    if not model.tied and not flags.on(untie):
        yield error(f"--{untie}", "not given", ADVICE.format("tie_word_embeddings: false"))
