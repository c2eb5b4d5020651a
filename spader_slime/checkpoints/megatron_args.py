"""What Megatron looks for in a checkpoint beside the weights."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import torch

from spader_slime.megatron.shape import ModelConfig


def write_common(folder: Path, config: ModelConfig) -> None:
    """Write `common.pt`: the arguments that Megatron compares with those of the run."""
    arguments = Namespace(
        num_layers=config.layers,
        hidden_size=config.hidden,
        ffn_hidden_size=config.ffn,
        num_attention_heads=config.heads,
        group_query_attention=True,
        num_query_groups=config.groups,
        kv_channels=config.head_dim,
        max_position_embeddings=config.max_positions,
        position_embedding_type="rope",
        rotary_base=config.rope_theta,
        normalization="RMSNorm",
        norm_epsilon=config.norm_eps,
        swiglu=True,
        add_bias_linear=False,
        add_qkv_bias=config.qkv_bias,
        qk_layernorm=config.qk_norm,
        untie_embeddings_and_output_weights=config.untied,
        num_experts=config.experts or None,
        moe_ffn_hidden_size=config.expert_ffn or None,
        moe_router_topk=config.experts_per_token or None,
        q_lora_rank=None,
        vocab_size=config.vocab,
        padded_vocab_size=config.vocab,
        tensor_model_parallel_size=1,
        pipeline_model_parallel_size=1,
        ckpt_format="torch_dist",
    )
    common = {"args": arguments, "checkpoint_version": 3.0, "iteration": 0}
    torch.save(common, folder / "common.pt")


def extra_states(config: ModelConfig, spec: str, stacked: bool) -> list[str]:
    """Names of the empty objects that Megatron's layers load beside their weights.

    Transformer Engine keeps the scales of FP8 there. Megatron's own linear layers ask for them,
    too, and a name that is not there is an error.
    """
    names = []
    for layer in range(config.layers):
        prefix = "decoder.layers." if stacked else f"decoder.layers.{layer}."
        at, of = (f"{layer}", f"{config.layers}") if stacked else ("", "")
        for module in _modules(config, layer, spec):
            names.append(f"{prefix}{module}._extra_state/shard_{at or 0}_{of or 1}")
        for module in _expert_modules(config, layer):
            for expert in range(config.experts):
                own_at = ".".join(filter(None, (at, str(expert))))
                own_of = ".".join(filter(None, (of, str(config.experts))))
                names.append(f"{prefix}{module}._extra_state/shard_{own_at}_{own_of}")
    if spec == "te":
        names.append("decoder.final_layernorm._extra_state/shard_0_1")
    return names


def _modules(config: ModelConfig, layer: int, spec: str) -> list[str]:
    names = ["self_attention.linear_qkv", "self_attention.linear_proj"]
    if not config.is_moe(layer):
        names += ["mlp.linear_fc1", "mlp.linear_fc2"]
    if spec == "te":
        names.append("self_attention.core_attention")
        if config.qk_norm:
            names += ["self_attention.q_layernorm", "self_attention.k_layernorm"]
        if config.is_moe(layer):
            names.append("pre_mlp_layernorm")
    return names


def _expert_modules(config: ModelConfig, layer: int) -> list[str]:
    if not config.is_moe(layer):
        return []
    return ["mlp.experts.experts.linear_fc1", "mlp.experts.experts.linear_fc2"]
