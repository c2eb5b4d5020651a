"""The shape of a model, from the config.json of its Hugging Face folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spader_slime.errors import DataError


@dataclass(frozen=True)
class ModelShape:
    """Numbers of a decoder; sizes in elements.

    Attributes:
        kind: `model_type`.
        hidden, layers, heads, groups: `groups` are key/value heads.
        head: size of one head.
        ffn: of a dense layer.
        experts: 0 for a dense model.
        expert_ffn, shared_ffn: of one expert, and of the expert that every token takes.
        vocabulary: rows of the embedding.
        positions: longest sequence, in tokens; None where the file doesn't say.
        tied: output weights are the embedding.
        tied, rope_theta, norm_eps: None where the file doesn't say.
    """

    kind: str
    hidden: int
    layers: int
    heads: int
    groups: int
    head: int
    ffn: int
    vocabulary: int
    experts: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    positions: int | None = None
    tied: bool | None = None
    rope_theta: float | None = None
    norm_eps: float | None = None

    @property
    def parameters(self) -> int:
        """About how many; norms and biases are left out, every layer of an MoE counts as one."""
        attention = 2 * self.hidden * self.head * (self.heads + self.groups)
        widths = self.experts * self.expert_ffn + self.shared_ffn if self.experts else self.ffn
        layer = attention + 3 * self.hidden * widths + self.hidden * self.experts
        return self.layers * layer + self.vocabulary * self.hidden * (1 if self.tied else 2)


def read_shape(folder: Path) -> ModelShape:
    """The shape in `folder/config.json`.

    Raises:
        DataError: no such file, not JSON, or a size that is missing.
    """
    path = folder / "config.json"
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return _shape({**fields, **(fields.get("text_config") or {})})
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}") from error
    except KeyError as error:
        raise DataError(f"{path} has no {error}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not a model's configuration: {error}") from error


def _shape(fields: Mapping[str, Any]) -> ModelShape:
    heads, hidden = int(fields["num_attention_heads"]), int(fields["hidden_size"])
    rope = fields.get("rope_parameters") or {}
    return ModelShape(
        kind=str(fields.get("model_type", "")),
        hidden=hidden,
        layers=int(fields["num_hidden_layers"]),
        heads=heads,
        groups=int(fields.get("num_key_value_heads") or heads),
        head=int(fields.get("head_dim") or hidden // heads),
        ffn=int(fields.get("intermediate_size") or 0),
        vocabulary=int(fields["vocab_size"]),
        experts=_first(fields, "num_experts", "n_routed_experts", "num_local_experts"),
        expert_ffn=_first(fields, "moe_intermediate_size", "intermediate_size"),
        shared_ffn=_first(fields, "shared_expert_intermediate_size"),
        positions=fields.get("max_position_embeddings"),
        tied=fields.get("tie_word_embeddings"),
        rope_theta=rope.get("rope_theta", fields.get("rope_theta")),
        norm_eps=fields.get("rms_norm_eps"),
    )


def _first(fields: Mapping[str, Any], *names: str) -> int:
    return int(next((fields[name] for name in names if fields.get(name)), 0))
