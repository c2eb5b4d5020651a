"""transformers' side of `--verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from spader_slime.checkpoints.safetensors_files import HfWeights
from spader_slime.errors import CheckpointError
from spader_slime.megatron.shape import ModelConfig


class HfSide:
    """transformers' own modules over one layer of the folder at a time."""

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        from transformers import AutoConfig, AutoModelForCausalLM

        self._weights, self._config = HfWeights(folder), config
        self.hf: Any = AutoConfig.from_pretrained(folder)
        self._types = getattr(self.hf, "layer_types", None)
        self._make = AutoModelForCausalLM.from_config
        self._models: dict[tuple[Any, bool], Any] = {}  # by type of attention and of MLP

    def dtype(self, name: str) -> torch.dtype:
        """Of a tensor in the folder."""
        return self._weights.slots[name][1].dtype

    def embed(self, tokens: Tensor) -> Tensor:
        """Rows of the embedding."""
        return self._weights["model.embed_tokens.weight"][tokens].float()

    def head(self) -> Tensor:
        """The output layer."""
        return self._weights["model.embed_tokens.weight" if self._config.tied else "lm_head.weight"]

    def normed(self, x: Tensor) -> Tensor:
        """The final norm's output."""
        weight = self._weights["model.norm.weight"].float()
        return nn.functional.rms_norm(x, x.shape[-1:], weight, self._config.norm_eps)

    def layer(self, number: int, x: Tensor) -> Tensor:
        """Layer `number`'s output, by a model of that one layer."""
        kind = self._types[number] if self._types else None, self._config.is_moe(number)
        if kind not in self._models:
            self._models[kind] = self._model(number)
        model = self._models[kind]
        prefix = f"model.layers.{number}."
        state = {
            "layers.0." + name.removeprefix(prefix): self._weights[name].float()
            for name in self._weights.slots
            if name.startswith(prefix)
        }
        _load(model, _fused(state, model))
        output: Tensor = model(inputs_embeds=x, use_cache=False).last_hidden_state
        return output

    def _model(self, number: int) -> Any:
        hf = type(self.hf).from_dict(self.hf.to_dict())
        hf.num_hidden_layers, hf.vocab_size = 1, 8
        hf.pad_token_id = None
        if self._types:
            hf.layer_types = [self._types[number]]
        if self._config.experts:
            dense = not self._config.is_moe(number)
            hf.decoder_sparse_step, hf.mlp_only_layers = 1, [0] if dense else []
        model = self._make(hf, dtype=torch.float32, attn_implementation="eager").model
        model.norm = nn.Identity()
        model.embed_tokens = nn.Identity()
        return model.eval()


def _fused(state: dict[str, Tensor], model: Any) -> dict[str, Tensor]:
    """Experts stacked, where this version of transformers holds them that way."""
    wanted = dict(model.named_parameters())
    base = "layers.0.mlp.experts."
    if base + "gate_up_proj" not in wanted:
        return state
    count = len(wanted[base + "gate_up_proj"])
    parts = {
        part: torch.stack([state.pop(f"{base}{e}.{part}.weight") for e in range(count)])
        for part in ("gate_proj", "up_proj", "down_proj")
    }
    state[base + "gate_up_proj"] = torch.cat((parts["gate_proj"], parts["up_proj"]), dim=1)
    state[base + "down_proj"] = parts["down_proj"]
    return state


def _load(model: Any, state: dict[str, Tensor]) -> None:
    try:
        model.load_state_dict(state, strict=True)
    except RuntimeError as error:
        raise CheckpointError(f"transformers does not take the exported layer ({error})") from error
