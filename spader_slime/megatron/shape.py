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

    @classmethod
    def from_hf(cls, folder: str | Path) -> ModelConfig:
        """Read `config.json`.

        Raises:
            CheckpointError: no readable config, or a feature that is not supported.
        """
        path = Path(folder) / "config.json"
        try:
            values = json.loads(path.read_text())
            return cls._from_values(values)
        except (OSError, ValueError, KeyError) as error:
            raise CheckpointError(f"{path}: not a readable model config ({error!r})") from error

    @classmethod
    def _from_values(cls, hf: dict[str, Any]) -> ModelConfig:
        _refuse_unsupported(hf)
        rope = hf.get("rope_parameters") or {"rope_theta": hf.get("rope_theta", 10000.0)}
        heads = hf["num_attention_heads"]
        return cls(
            family=hf["model_type"],
            hidden=hf["hidden_size"],
            layers=hf["num_hidden_layers"],
            heads=heads,
            groups=hf.get("num_key_value_heads", heads),
            head_dim=hf.get("head_dim") or hf["hidden_size"] // heads,
            ffn=hf["intermediate_size"],
            vocab=hf["vocab_size"],
            max_positions=hf["max_position_embeddings"],
            rope_theta=float(rope["rope_theta"]),
            norm_eps=hf["rms_norm_eps"],
            tied=bool(hf.get("tie_word_embeddings", False)),
            qkv_bias=hf["model_type"] == "qwen2" or bool(hf.get("attention_bias", False)),
            qk_norm=hf["model_type"] == "qwen3",
        )

    @property
    def untied(self) -> bool:
        """The output layer has its own weights."""
        return not self.tied

    def padded_vocab(self, tp: int) -> int:
        """Embedding rows in the Megatron model: the vocabulary padded to a multiple of `tp`."""
        return -(-self.vocab // tp) * tp


def _refuse_unsupported(hf: dict[str, Any]) -> None:
    rope = hf.get("rope_parameters") or hf.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise CheckpointError(f"rope_type {kind!r} is not supported by the trainer")
    if hf.get("hidden_act", "silu") != "silu":
        raise CheckpointError(f"activation {hf['hidden_act']!r} is not supported by the trainer")
    if hf.get("use_sliding_window"):
        raise CheckpointError("sliding-window attention is not supported by the trainer")
