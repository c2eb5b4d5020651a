"""The shape of a decoder, from a Hugging Face config."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spader_slime.errors import CheckpointError


@dataclass(frozen=True)
class ModelConfig:
    """Shape of a decoder, read from a Hugging Face `config.json`."""

    family: str  # the config's `model_type`, a key of `weights.FAMILIES`
    hidden: int
    layers: int
    heads: int
    groups: int  # key-value heads
    head_dim: int
    ffn: int
    vocab: int  # rows of the embedding in the Hugging Face folder
    max_positions: int
    rope_theta: float
    norm_eps: float
    tied: bool
    qkv_bias: bool
    qk_norm: bool

    experts: int = 0  # of a mixture layer; 0: the model has none
    expert_ffn: int = 0
    experts_per_token: int = 0
    norm_topk: bool = False  # the weights of a token's experts are made to sum to one
    dense_layers: frozenset[int] = frozenset()  # layers without experts in a mixture model
    quantized: bool = False  # the folder's own weights are

    @classmethod
    def from_hf(cls, folder: str | Path) -> ModelConfig:
        """Read `config.json` of a model that the embedded trainer is to train.

        Raises:
            CheckpointError: as `read`, or a feature that the trainer lacks.
        """
        values = _values(folder)
        config = cls.read(folder)
        _refuse_untrainable(values, config)
        return config

    @classmethod
    def read(cls, folder: str | Path) -> ModelConfig:
        """Read `config.json` of any model whose weights we can map.

        Raises:
            CheckpointError: no readable config, or parameters that the tables don't know.
        """
        values, path = _values(folder), Path(folder) / "config.json"
        try:
            config = cls._from_values(values)
        except (TypeError, ValueError, KeyError, ArithmeticError, AttributeError) as error:
            raise CheckpointError(f"{path}: not a readable model config ({error!r})") from error
        if fault := _fault(config):
            raise CheckpointError(f"{path}: {fault}")
        return config

    @classmethod
    def _from_values(cls, hf: dict[str, Any]) -> ModelConfig:
        _refuse_unmapped(hf)
        rope = hf.get("rope_parameters") or {"rope_theta": hf.get("rope_theta", 10000.0)}
        heads, layers = hf["num_attention_heads"], hf["num_hidden_layers"]
        return cls(
            family=hf["model_type"],
            hidden=hf["hidden_size"],
            layers=layers,
            heads=heads,
            groups=hf.get("num_key_value_heads") or heads,
            head_dim=hf.get("head_dim") or hf["hidden_size"] // heads,
            ffn=hf["intermediate_size"],
            vocab=hf["vocab_size"],
            max_positions=hf["max_position_embeddings"],
            rope_theta=float(rope["rope_theta"]),
            norm_eps=hf["rms_norm_eps"],
            tied=bool(hf.get("tie_word_embeddings", False)),
            qkv_bias=hf["model_type"] == "qwen2",
            qk_norm=hf["model_type"].startswith("qwen3"),
            experts=hf.get("num_experts") or hf.get("num_local_experts") or 0,
            expert_ffn=hf.get("moe_intermediate_size") or 0,
            experts_per_token=hf.get("num_experts_per_tok") or 0,
            norm_topk=bool(hf.get("norm_topk_prob")),
            dense_layers=_dense_layers(hf, layers),
            quantized=bool(hf.get("quantization_config")),
        )

    @property
    def untied(self) -> bool:
        """The output layer has its own weights."""
        return not self.tied

    @property
    def attention(self) -> int:
        """Width of all query heads together."""
        return self.heads * self.head_dim

    @property
    def qkv(self) -> int:
        """Rows of the fused query, key and value projection."""
        return (self.heads + 2 * self.groups) * self.head_dim

    @property
    def gate_up(self) -> int:
        """Rows of the fused gate and up projection."""
        return 2 * self.ffn

    @property
    def expert_gate_up(self) -> int:
        """The same of one expert."""
        return 2 * self.expert_ffn

    def is_moe(self, layer: int) -> bool:
        """Layer `layer`, counted from 0, routes tokens to experts."""
        return bool(self.experts) and layer not in self.dense_layers

    def padded_vocab(self, tp: int) -> int:
        """Embedding rows in the Megatron model: the vocabulary padded to a multiple of `tp`."""
        return -(-self.vocab // tp) * tp


def _values(folder: str | Path) -> dict[str, Any]:
    path = Path(folder) / "config.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise CheckpointError(f"{path}: not a readable model config ({why})") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: not a readable model config")
    return values


_SIZES = ("hidden", "layers", "heads", "groups", "head_dim", "ffn", "vocab", "max_positions")
_OF_EXPERTS = ("experts", "expert_ffn", "experts_per_token")
_MOST = 10_000  # layers or experts


def _fault(config: ModelConfig) -> str | None:
    """What no model can be like."""
    for name in (*_SIZES, *(_OF_EXPERTS if config.experts else ())):
        value = getattr(config, name)
        most = _MOST if name in ("layers", "experts") else 2**31
        if not isinstance(value, int) or not 0 < value <= most:
            return f"{name} is {value!r}, which no model can have"
    if config.heads % config.groups:
        return f"{config.heads} attention heads can't share {config.groups} key-value heads"
    return None


def _dense_layers(hf: dict[str, Any], layers: int) -> frozenset[int]:
    step = hf.get("decoder_sparse_step") or 1
    without = {layer for layer in range(min(layers, _MOST)) if (layer + 1) % step}
    return frozenset(without | set(hf.get("mlp_only_layers") or ()))


def _refuse_unmapped(hf: dict[str, Any]) -> None:
    for name in ("attention_bias", "mlp_bias"):
        if hf.get(name):
            raise CheckpointError(f"{name} is not supported: the tables have no such parameters")


def _refuse_untrainable(hf: dict[str, Any], config: ModelConfig) -> None:
    rope = hf.get("rope_parameters") or hf.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise CheckpointError(f"rope_type {kind!r} is not supported by the trainer")
    if hf.get("hidden_act", "silu") != "silu":
        raise CheckpointError(f"activation {hf['hidden_act']!r} is not supported by the trainer")
    if hf.get("use_sliding_window"):
        raise CheckpointError("sliding-window attention is not supported by the trainer")
    if config.experts:
        raise CheckpointError("mixtures of experts are not supported by the embedded trainer")
