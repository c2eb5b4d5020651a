"""Parallel sizes against GPUs, heads, layers and experts."""

from __future__ import annotations

from collections.abc import Iterator

from spader_slime.doctor.facts import Facts
from spader_slime.doctor.findings import Finding, error, ok
from spader_slime.doctor.flags import Flags
from spader_slime.doctor.model import ModelShape
from spader_slime.doctor.sizes import Sizes, read_sizes

TP, PP, CP = (f"--{n}-parallel-size" for n in ("tensor-model", "pipeline-model", "context"))
EP = "--expert-model-parallel-size"


def check(facts: Facts) -> Iterator[Finding]:
    """Every size divides what it has to divide."""
    sizes, flags = read_sizes(facts.flags), facts.flags
    findings = [*_gpus(sizes), *_engines(flags, sizes, facts.model.value), *_nodes(flags)]
    if facts.model.value is not None:
        model = facts.model.value
        findings += [*_tensor(sizes, model), *_pipeline(sizes, model, flags)]
        findings += [*_experts(sizes, model, flags), *_context(sizes, model, flags)]
    about = f"TP {sizes.tensor} PP {sizes.pipeline} CP {sizes.context} EP {sizes.expert}"
    yield from findings or [ok("parallel sizes", f"{about}: DP {sizes.data}")]


def _gpus(sizes: Sizes) -> Iterator[Finding]:
    if sizes.world % sizes.model:
        value = f"{sizes.tensor} x {sizes.pipeline} x {sizes.context} on {sizes.world} GPUs"
        yield error(f"{TP} {PP} {CP}", value, f"their product has to divide {sizes.world}")


def _tensor(sizes: Sizes, model: ModelShape) -> Iterator[Finding]:
    parts = {"attention heads": model.heads, "key/value heads": model.groups}
    if not model.experts:
        parts["FFN size"] = model.ffn
    for name, size in parts.items():
        if size % sizes.tensor:
            yield error(TP, sizes.tensor, f"it has to divide the model's {size} {name}")


def _pipeline(sizes: Sizes, model: ModelShape, flags: Flags) -> Iterator[Finding]:
    ends = [flags.integer(f"decoder-{end}-pipeline-num-layers") for end in ("first", "last")]
    given = [layers for layers in ends if layers is not None]
    layers, stages = model.layers - sum(given), sizes.pipeline - len(given)
    if sizes.pipeline == 1 and given:
        yield error("--decoder-*-pipeline-num-layers", given, f"leave it out with {PP} 1")
    elif stages < 0 or layers < 0 or (layers % stages if stages else layers):
        advice = (
            f"{layers} layers don't divide among {stages} stages: change it, or give "
            "--decoder-first-pipeline-num-layers or --decoder-last-pipeline-num-layers"
        )
        yield error(PP, sizes.pipeline, advice)


def _experts(sizes: Sizes, model: ModelShape, flags: Flags) -> Iterator[Finding]:
    if not model.experts:
        if sizes.expert > 1:
            yield error(EP, sizes.expert, "1: the model has no experts")
        return
    if model.experts % sizes.expert:
        yield error(EP, sizes.expert, f"it has to divide the model's {model.experts} experts")
    group = sizes.expert * sizes.expert_tensor * sizes.pipeline
    if sizes.world % group:
        value = f"{sizes.expert} x {sizes.expert_tensor} x {sizes.pipeline}"
        advice = f"expert, expert-tensor and pipeline size have to divide {sizes.world} GPUs"
        yield error(EP, value, advice)
    if model.expert_ffn % sizes.expert_tensor:
        advice = f"it has to divide the experts' FFN size {model.expert_ffn}"
        yield error("--expert-tensor-parallel-size", sizes.expert_tensor, advice)
    if sizes.tensor > 1 and not flags.on("sequence-parallel"):
        advice = "add it: Megatron wants it for experts with tensor parallelism"
        yield error("--sequence-parallel", "not given", advice)


def _context(sizes: Sizes, model: ModelShape, flags: Flags) -> Iterator[Finding]:
    sparse = model.kind.startswith(("deepseek_v32", "glm_moe_dsa"))
    if flags.on("allgather-cp") and sizes.context > 1 and not sparse:
        advice = "leave it out: it would scramble the tokens of this model"
        yield error("--allgather-cp", model.kind, advice)


def _engines(flags: Flags, sizes: Sizes, model: ModelShape | None) -> Iterator[Finding]:
    gpus = flags.integer("rollout-num-gpus", sizes.world if flags.on("colocate") else None)
    each = flags.count("rollout-num-gpus-per-engine", 1)
    if gpus is None and not flags.on("rollout-external-engine-addrs"):
        advice = "say how many GPUs the engines get, or share the trainer's with --colocate"
        yield error("--rollout-num-gpus", "not given", advice)
    elif gpus is not None and gpus % each:
        yield error("--rollout-num-gpus-per-engine", each, f"it has to divide {gpus} GPUs")
    if model is not None and model.heads % each and not flags.on("sglang-dp-size"):
        advice = f"it has to divide the model's {model.heads} attention heads"
        yield error("--rollout-num-gpus-per-engine", each, advice)


def _nodes(flags: Flags) -> Iterator[Finding]:
    """slime places engines by --num-gpus-per-node, 8 unless given."""
    each = flags.count("actor-num-gpus-per-node", 8)
    said = flags.count("num-gpus-per-node", 8)
    if flags.on("colocate") and flags.count("actor-num-nodes", 1) > 1 and said != each:
        advice = f"{each}, as many as --actor-num-gpus-per-node"
        yield error("--num-gpus-per-node", said, advice)
