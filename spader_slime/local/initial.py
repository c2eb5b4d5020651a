"""A fresh, tiny Qwen3 policy as a Hugging Face folder: what the cold start begins from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoTokenizer

if TYPE_CHECKING:
    from spader_slime.local.settings import PolicySettings

STD = 0.1  # of every matrix that is not part of a projector pair


def write_initial(
    folder: Path, shape: PolicySettings, tokenizer: Path, max_positions: int, seed: int
) -> Path:
    """Write config, random weights and the tokenizer's files to `folder`.

    Value and output projections start as a projector pair: the output matrix is the transpose of
    the value matrix, so that attending to a token copies part of its embedding. Copying names is
    what the policy has to learn first, and from plain noise that alone takes longer than the whole
    cold start does from here (see docs/lab-notes.md).
    """
    folder.mkdir(parents=True, exist_ok=True)
    for file in tokenizer.iterdir():
        shutil.copy(file, folder / file.name)
    words = AutoTokenizer.from_pretrained(folder)
    vocab, end = len(words), int(words.eos_token_id)
    config = _config(shape, vocab, end, max_positions)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": end}))
    save_file(_weights(shape, vocab, seed), folder / "model.safetensors", {"format": "pt"})
    return folder


def _config(shape: PolicySettings, vocab: int, end: int, max_positions: int) -> dict[str, Any]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": vocab,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.ffn,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": shape.rope_theta,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": True,
        "max_position_embeddings": max_positions,
        "eos_token_id": end,
        "torch_dtype": "float32",
    }


def _weights(shape: PolicySettings, vocab: int, seed: int) -> dict[str, Tensor]:
    source = torch.Generator().manual_seed(seed)
    weights = {"model.embed_tokens.weight": _noise(source, vocab, shape.hidden)}
    for layer in range(shape.layers):
        for name, value in _layer(shape, source).items():
            weights[f"model.layers.{layer}.{name}.weight"] = value
    weights["model.norm.weight"] = torch.ones(shape.hidden)
    return weights


def _layer(shape: PolicySettings, source: torch.Generator) -> dict[str, Tensor]:
    hidden, dim = shape.hidden, shape.head_dim
    value, output = _projector_pair(shape, source)
    return {
        "self_attn.q_proj": _noise(source, shape.heads * dim, hidden),
        "self_attn.k_proj": _noise(source, shape.kv_heads * dim, hidden),
        "self_attn.v_proj": value,
        "self_attn.o_proj": output,
        "self_attn.q_norm": torch.ones(dim),
        "self_attn.k_norm": torch.ones(dim),
        "mlp.gate_proj": _noise(source, shape.ffn, hidden),
        "mlp.up_proj": _noise(source, shape.ffn, hidden),
        "mlp.down_proj": _noise(source, hidden, shape.ffn),
        "input_layernorm": torch.ones(hidden),
        "post_attention_layernorm": torch.ones(hidden),
    }


def _projector_pair(shape: PolicySettings, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Per KV head an orthonormal basis U: value U^T, output U / (query heads that share it)."""
    sharing = shape.heads // shape.kv_heads
    bases = [
        torch.linalg.qr(torch.randn(shape.hidden, shape.head_dim, generator=source))[0]
        for _ in range(shape.kv_heads)
    ]
    value = torch.cat([basis.T for basis in bases])
    output = torch.cat([basis / sharing for basis in bases for _ in range(sharing)], dim=1)
    return value.contiguous(), output.contiguous()


def _noise(source: torch.Generator, rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns, generator=source) * STD
