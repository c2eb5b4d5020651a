"""Names of parameters: Megatron-core <-> Hugging Face, one table per model family.

The trainer's weight sync, `spader-slime export` and `spader-slime import` all read these tables.
Megatron names are those of the Transformer Engine layers, as slime's weight sync has them;
`canonical` maps the names of Megatron's local layers onto them, `Rule.stored` lists what torch_dist
files call a parameter otherwise. Layouts are in `layouts.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spader_slime.errors import CheckpointError
from spader_slime.megatron.layouts import Layout
from spader_slime.megatron.shape import ModelConfig


@dataclass(frozen=True)
class Rule:
    """One line of a family's table. `{l}` and `{e}` stand for the layer, counted from 0 over all
    stages, and the expert.

    Attributes:
        megatron: name of the parameter as the Transformer Engine layers have it.
        hf: Hugging Face names of its parts.
        size: what `ModelConfig` calls the axes of the full Megatron tensor.
        when: a true-or-false field of `ModelConfig` that must hold, or the kind of layer, "dense"
            or "moe".
        stored: how torch_dist files may call it instead; `{l}` as above, experts as an axis.
    """

    megatron: str
    hf: tuple[str, ...]
    size: tuple[str, ...]
    layout: Layout = Layout.WHOLE
    when: str | None = None
    stored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parameter:
    """A rule applied to one layer and expert: one tensor of the model."""

    rule: Rule
    name: str
    hf: tuple[str, ...]
    layer: int | None = None
    expert: int | None = None


_LAYER, _HF = "decoder.layers.{l}.", "model.layers.{l}."
_EXPERTS, _HF_EXPERTS = _LAYER + "mlp.experts.", _HF + "mlp.experts.{e}."
_QKV_HF = tuple(f"{_HF}self_attn.{x}_proj." for x in "qkv")
_INPUT_NORM = "self_attention.linear_qkv.layer_norm_weight"
_FUSED_NORM, _MLP_NORM = _LAYER + "mlp.linear_fc1.layer_norm_weight", "pre_mlp_layernorm.weight"
_HF_MLP_NORM = (_HF + "post_attention_layernorm.weight",)


def _of_experts(name: str) -> tuple[str, ...]:
    """Stored with an axis of experts, with numbered experts, or as a process names its own."""
    return tuple(_EXPERTS + at + name for at in ("experts.", "experts.{e}.", "local_experts.{e}."))


_AROUND = (
    Rule(
        "embedding.word_embeddings.weight",
        ("model.embed_tokens.weight",),
        ("vocab", "hidden"),
        Layout.VOCAB,
    ),
    Rule("decoder.final_layernorm.weight", ("model.norm.weight",), ("hidden",)),
    Rule(
        "output_layer.weight",
        ("lm_head.weight",),
        ("vocab", "hidden"),
        Layout.VOCAB,
        when="untied",
    ),
)
_ATTENTION = (
    Rule(
        _LAYER + _INPUT_NORM,
        (_HF + "input_layernorm.weight",),
        ("hidden",),
        stored=(_LAYER + "input_layernorm.weight",),
    ),
    Rule(
        _LAYER + "self_attention.linear_qkv.weight",
        tuple(name + "weight" for name in _QKV_HF),
        ("qkv", "hidden"),
        Layout.QKV,
    ),
    Rule(
        _LAYER + "self_attention.linear_qkv.bias",
        tuple(name + "bias" for name in _QKV_HF),
        ("qkv",),
        Layout.QKV,
        when="qkv_bias",
    ),
    Rule(
        _LAYER + "self_attention.q_layernorm.weight",
        (_HF + "self_attn.q_norm.weight",),
        ("head_dim",),
        when="qk_norm",
    ),
    Rule(
        _LAYER + "self_attention.k_layernorm.weight",
        (_HF + "self_attn.k_norm.weight",),
        ("head_dim",),
        when="qk_norm",
    ),
    Rule(
        _LAYER + "self_attention.linear_proj.weight",
        (_HF + "self_attn.o_proj.weight",),
        ("hidden", "attention"),
        Layout.COLUMNS,
    ),
)
_DENSE = (
    Rule(_FUSED_NORM, _HF_MLP_NORM, ("hidden",), when="dense", stored=(_LAYER + _MLP_NORM,)),
    Rule(
        _LAYER + "mlp.linear_fc1.weight",
        (_HF + "mlp.gate_proj.weight", _HF + "mlp.up_proj.weight"),
        ("gate_up", "hidden"),
        Layout.GATE_UP,
        when="dense",
    ),
    Rule(
        _LAYER + "mlp.linear_fc2.weight",
        (_HF + "mlp.down_proj.weight",),
        ("hidden", "ffn"),
        Layout.COLUMNS,
        when="dense",
    ),
)
_MIXTURE = (
    # Megatron's local layers have no norm of their own before experts; they file it as a fused one.
    Rule(_LAYER + _MLP_NORM, _HF_MLP_NORM, ("hidden",), when="moe", stored=(_FUSED_NORM,)),
    Rule(
        _LAYER + "mlp.router.weight",
        (_HF + "mlp.gate.weight",),
        ("experts", "hidden"),
        when="moe",
    ),
    Rule(
        _EXPERTS + "linear_fc1.weight{e}",
        (_HF_EXPERTS + "gate_proj.weight", _HF_EXPERTS + "up_proj.weight"),
        ("expert_gate_up", "hidden"),
        Layout.GATE_UP,
        when="moe",
        stored=_of_experts("linear_fc1.weight"),
    ),
    Rule(
        _EXPERTS + "linear_fc2.weight{e}",
        (_HF_EXPERTS + "down_proj.weight",),
        ("hidden", "expert_ffn"),
        Layout.COLUMNS,
        when="moe",
        stored=_of_experts("linear_fc2.weight"),
    ),
)

FAMILIES: dict[str, tuple[Rule, ...]] = {
    "qwen3": (*_AROUND, *_ATTENTION, *_DENSE),
    "qwen2": (*_AROUND, *_ATTENTION, *_DENSE),
    "llama": (*_AROUND, *_ATTENTION, *_DENSE),
    "qwen3_moe": (*_AROUND, *_ATTENTION, *_DENSE, *_MIXTURE),
}


def parameters(config: ModelConfig) -> Iterator[Parameter]:
    """Every parameter of the model, in the order of the family's table.

    Raises:
        CheckpointError: the family has no table.
    """
    table = FAMILIES.get(config.family)
    if table is None:
        known = ", ".join(sorted(FAMILIES))
        raise CheckpointError(f"model_type {config.family!r} is not supported (known: {known})")
    for rule in table:
        for layer in range(config.layers) if "{l}" in rule.megatron else (None,):
            if not _applies(rule, config, layer):
                continue
            for expert in range(config.experts) if "{e}" in rule.megatron else (None,):
                at = {"l": layer, "e": expert}
                hf = tuple(name.format_map(at) for name in rule.hf)
                yield Parameter(rule, rule.megatron.format_map(at), hf, layer, expert)


def _applies(rule: Rule, config: ModelConfig, layer: int | None) -> bool:
    if rule.when in ("dense", "moe"):
        assert layer is not None
        return config.is_moe(layer) == (rule.when == "moe")
    return rule.when is None or bool(getattr(config, rule.when))


def full_size(rule: Rule, config: ModelConfig) -> tuple[int, ...]:
    """Shape of the full Megatron tensor, its vocabulary not padded."""
    return tuple(int(getattr(config, axis)) for axis in rule.size)


def canonical(name: str, first_layer: int, tied: bool) -> str:
    """Checkpoint name of a parameter of this process' model.

    Args:
        name: as in `model.named_parameters()`.
        first_layer: number of this stage's first layer.
        tied: the model shares embedding and output weights.
    """
    if name.startswith("decoder.layers."):
        _, _, local, rest = name.split(".", 3)
        rest = rest.replace("pre_mlp_layernorm.", "mlp.linear_fc1.layer_norm_")
        rest = rest.replace("input_layernorm.", "self_attention.linear_qkv.layer_norm_")
        return f"decoder.layers.{int(local) + first_layer}.{rest}"
    if tied and name == "output_layer.weight":
        return "embedding.word_embeddings.weight"
    return name
