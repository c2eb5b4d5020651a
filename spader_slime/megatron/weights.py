"""Names and layouts of parameters: Megatron-core <-> Hugging Face, one table per model family.

Megatron names are those of torch_dist checkpoints (the Transformer Engine layout); `canonical` maps
the local layer spec's names onto them. A *full* tensor has the size it has at tensor parallel 1.

Layouts of the Megatron side:
- QKV: rows grouped by key-value head: that group's query heads, its key head, its value head.
- GATE_UP: gate rows, then up rows; a tensor-parallel rank holds its part of each, one after the
  other.
- VOCAB: rows padded with zeros to a multiple of the tensor-parallel size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from spader_slime.errors import CheckpointError
from spader_slime.megatron.shape import ModelConfig


class Layout(Enum):
    """How a full tensor is split over tensor-parallel ranks and related to Hugging Face ones."""

    WHOLE = "whole"  # the same on every rank
    ROWS = "rows"
    COLUMNS = "columns"
    VOCAB = "vocab"
    QKV = "qkv"
    GATE_UP = "gate_up"


@dataclass(frozen=True)
class Rule:
    """One line of a family's table. `{l}` stands for the layer, counted from 0 over all stages."""

    megatron: str
    hf: tuple[str, ...]
    layout: Layout = Layout.WHOLE
    when: str | None = None  # a true-or-false field of ModelConfig that must hold


_LAYER, _HF = "decoder.layers.{l}.", "model.layers.{l}."
_QKV_HF = tuple(f"{_HF}self_attn.{x}_proj." for x in "qkv")

LLAMA_LIKE: tuple[Rule, ...] = (
    Rule("embedding.word_embeddings.weight", ("model.embed_tokens.weight",), Layout.VOCAB),
    Rule(
        _LAYER + "self_attention.linear_qkv.layer_norm_weight",
        (_HF + "input_layernorm.weight",),
    ),
    Rule(
        _LAYER + "self_attention.linear_qkv.weight",
        tuple(name + "weight" for name in _QKV_HF),
        Layout.QKV,
    ),
    Rule(
        _LAYER + "self_attention.linear_qkv.bias",
        tuple(name + "bias" for name in _QKV_HF),
        Layout.QKV,
        when="qkv_bias",
    ),
    Rule(
        _LAYER + "self_attention.q_layernorm.weight",
        (_HF + "self_attn.q_norm.weight",),
        when="qk_norm",
    ),
    Rule(
        _LAYER + "self_attention.k_layernorm.weight",
        (_HF + "self_attn.k_norm.weight",),
        when="qk_norm",
    ),
    Rule(
        _LAYER + "self_attention.linear_proj.weight",
        (_HF + "self_attn.o_proj.weight",),
        Layout.COLUMNS,
    ),
    Rule(
        _LAYER + "mlp.linear_fc1.layer_norm_weight",
        (_HF + "post_attention_layernorm.weight",),
    ),
    Rule(
        _LAYER + "mlp.linear_fc1.weight",
        (_HF + "mlp.gate_proj.weight", _HF + "mlp.up_proj.weight"),
        Layout.GATE_UP,
    ),
    Rule(_LAYER + "mlp.linear_fc2.weight", (_HF + "mlp.down_proj.weight",), Layout.COLUMNS),
    Rule("decoder.final_layernorm.weight", ("model.norm.weight",)),
    Rule("output_layer.weight", ("lm_head.weight",), Layout.VOCAB, when="untied"),
)

FAMILIES: dict[str, tuple[Rule, ...]] = {
    "qwen3": LLAMA_LIKE,
    "qwen2": LLAMA_LIKE,
    "llama": LLAMA_LIKE,
}


def rules(config: ModelConfig) -> Iterator[tuple[Rule, str, tuple[str, ...]]]:
    """Every parameter of the model: its rule, Megatron name and Hugging Face names.

    Raises:
        CheckpointError: the family has no table.
    """
    table = FAMILIES.get(config.family)
    if table is None:
        known = ", ".join(sorted(FAMILIES))
        raise CheckpointError(f"model_type {config.family!r} is not supported (known: {known})")
    for rule in table:
        if rule.when is not None and not getattr(config, rule.when):
            continue
        for layer in range(config.layers) if "{l}" in rule.megatron else (0,):
            yield rule, rule.megatron.format(l=layer), tuple(n.format(l=layer) for n in rule.hf)


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


def to_hf(layout: Layout, full: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """The Hugging Face tensors made of one full Megatron tensor."""
    if layout is Layout.QKV:
        queries = config.heads // config.groups
        split = full.view(config.groups, queries + 2, config.head_dim, *full.shape[1:])
        parts = split.split([queries, 1, 1], dim=1)
        return tuple(part.reshape(-1, *full.shape[1:]) for part in parts)
    if layout is Layout.GATE_UP:
        return tuple(full.chunk(2))
    return (full[: config.vocab],) if layout is Layout.VOCAB else (full,)


def from_hf(layout: Layout, parts: Sequence[Tensor], config: ModelConfig, tp: int) -> Tensor:
    """The full Megatron tensor made of Hugging Face tensors; inverse of `to_hf`."""
    if layout is Layout.QKV:
        shape = (config.groups, -1, config.head_dim, *parts[0].shape[1:])
        return torch.cat([part.reshape(shape) for part in parts], dim=1).flatten(0, 2)
    if layout is Layout.GATE_UP:
        return torch.cat(list(parts))
    if layout is Layout.VOCAB:
        missing = config.padded_vocab(tp) - parts[0].shape[0]
        return torch.cat([parts[0], parts[0].new_zeros(missing, *parts[0].shape[1:])])
    return parts[0]


def shard(layout: Layout, full: Tensor, rank: int, tp: int) -> Tensor:
    """Tensor-parallel rank `rank`'s part of a full tensor."""
    if layout is Layout.WHOLE or tp == 1:
        return full
    if layout is Layout.COLUMNS:
        return full.chunk(tp, dim=1)[rank]
    if layout is Layout.GATE_UP:
        return torch.cat([half.chunk(tp)[rank] for half in full.chunk(2)])
    return full.chunk(tp)[rank]


def unshard(layout: Layout, shards: Sequence[Tensor]) -> Tensor:
    """The full tensor from all ranks' parts, in rank order; inverse of `shard`."""
    if layout is Layout.WHOLE or len(shards) == 1:
        return shards[0]
    if layout is Layout.COLUMNS:
        return torch.cat(list(shards), dim=1)
    if layout is Layout.GATE_UP:
        halves = zip(*(part.chunk(2) for part in shards), strict=True)
        return torch.cat([torch.cat(half) for half in halves])
    return torch.cat(list(shards))
