"""Tiny models of every family whose checkpoints can be converted, as transformers makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

from support.tokenizers import byte_tokenizer

SIZES: dict[str, Any] = {
    "vocab_size": 259,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "eos_token_id": 2,
}
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
MOE |= {"norm_topk_prob": True}
SCALED = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
SCALED |= {"original_max_position_embeddings": 8192}
LLAMA31 = {**SIZES, "max_position_embeddings": 131072, "rope_theta": 500000.0}
CONFIGS = {
    "qwen3": Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=False),
    "qwen3-tied": Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=True),
    "qwen3-moe": Qwen3MoeConfig(**SIZES, **MOE, head_dim=16, tie_word_embeddings=False),
    "qwen3-moe-mixed": Qwen3MoeConfig(
        **SIZES, **MOE, head_dim=16, mlp_only_layers=[0, 2], tie_word_embeddings=False
    ),
    "qwen2.5": Qwen2Config(**SIZES, tie_word_embeddings=True),
    "llama3": LlamaConfig(**SIZES, tie_word_embeddings=False),
    "llama3.1": LlamaConfig(**LLAMA31, rope_scaling=SCALED, tie_word_embeddings=True),
}


def save_hf(name: str, folder: Path, std: float = 0.5) -> Path:
    """Random fp32 weights (biases and norms, too) and a byte tokenizer."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIGS[name], dtype=torch.float32)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=std)
    model.save_pretrained(folder)
    byte_tokenizer(folder)
    return folder
