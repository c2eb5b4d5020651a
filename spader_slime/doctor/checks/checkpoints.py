"""Checkpoints: where they come from, where they go, and whether they fit."""

from __future__ import annotations

from collections.abc import Iterator

from spader_slime.doctor.facts import Disk, Facts
from spader_slime.doctor.findings import Finding, error, ok, warning
from spader_slime.doctor.flags import Flags

WEIGHT_BYTES, OPTIMIZER_BYTES = 2, 12  # per parameter: bf16; float32 weights and two moments
GB = 1e9


def check(facts: Facts) -> Iterator[Finding]:
    """Paths exist, training starts from weights, and all that is saved fits on the disk."""
    findings = [*_sources(facts), *_saving(facts.flags), *_disk(facts)]
    yield from findings or [ok("checkpoints", facts.flags.text("ref-load") or "")]


def _sources(facts: Facts) -> Iterator[Finding]:
    flags, paths = facts.flags, facts.paths
    if not flags.text("hf-checkpoint"):
        advice = "add it: the model's Hugging Face folder, for engine and tokenizer"
        yield error("--hf-checkpoint", "not given", advice)
    usable = ("megatron", "hf")
    for name in ("ref-load", "opd-teacher-load"):
        if flags.text(name) and paths[name] not in usable:
            advice = (
                "a Megatron or Hugging Face checkpoint (slime's tools/convert_hf_to_torch_dist)"
            )
            yield error(f"--{name}", f"{flags.text(name)}: {paths[name]}", advice)
    if paths.get("load") not in usable and not flags.text("ref-load"):
        advice = "give --ref-load (or --load) a checkpoint: weights would be random"
        yield error("--load", flags.text("load") or "not given", advice)


def _saving(flags: Flags) -> Iterator[Finding]:
    interval = flags.integer("save-interval")
    if interval is not None and not flags.text("save"):
        yield error("--save", "not given", "--save-interval needs a folder")
    if flags.text("save") and interval is None:
        yield warning("--save-interval", "not given", "add it: without it nothing is ever saved")
    if not flags.text("save") and interval is None:
        yield warning("--save", "not given", "add --save and --save-interval to keep the weights")


def _disk(facts: Facts) -> Iterator[Finding]:
    disk, model = facts.disk, facts.model.value
    if disk is None:
        return
    if not disk.writable:
        yield error("--save", disk.folder, "we may not write there: choose another folder")
    if model is None:
        return
    flags, each = facts.flags, model.parameters * WEIGHT_BYTES
    if not flags.on("no-save-optim"):
        each += model.parameters * OPTIMIZER_BYTES
    if flags.text("save-hf"):
        each += model.parameters * WEIGHT_BYTES
    yield _room(disk, each, _saves(facts))


def _room(disk: Disk, each: int, times: int | None) -> Finding:
    free, needed = disk.free_bytes, each * (times or 1)
    value = f"{free / GB:.1f} GB free in {disk.folder}"
    about = f"a checkpoint is about {each / GB:.1f} GB"
    if times is not None:
        about += f", {times} of them {needed / GB:.1f} GB"
    if free < each:
        return error("--save", value, f"{about}: free some space, or --no-save-optim")
    if free < needed:
        return warning("--save", value, f"{about}: raise --save-interval, or delete old ones")
    return ok("--save", value, about)


def _saves(facts: Facts) -> int | None:
    """Checkpoints of the whole run; None where its length is not known."""
    flags = facts.flags
    interval, rollouts = flags.integer("save-interval"), flags.integer("num-rollout")
    if rollouts is None:
        train = next((file for file in facts.data if file.name == "train"), None)
        epochs, prompts = flags.integer("num-epoch"), flags.integer("rollout-batch-size")
        if train is None or not train.complete or not epochs or not prompts:
            return None
        rollouts = epochs * len(train.rows) // prompts
    return -(-rollouts // interval) if interval else 0
