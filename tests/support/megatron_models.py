"""Megatron-core models of every family, and torch_dist checkpoints that Megatron writes of them."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from megatron.core import dist_checkpointing
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.transformer.moe import moe_utils
from torch import Tensor

from spader_slime.megatron.attention import FusedCausalAttention
from spader_slime.megatron.cpu import device, on_device
from spader_slime.megatron.model import transformer_config
from spader_slime.megatron.settings import LearnerSettings
from spader_slime.megatron.shape import ModelConfig
from spader_slime.megatron.writer import InProcessSave

vars(moe_utils).setdefault("te_general_gemm", None)  # it forgets to, without Transformer Engine
PADDED_VOCAB = 384  # Megatron pads to multiples of 128


def make_model(hf: Path, **parallel: Any) -> Any:
    """This process' part of a model in the shape of a Hugging Face folder; the grid must be up."""
    from megatron.core import parallel_state

    config = ModelConfig.read(hf)
    experts = _experts(config) if config.experts else {}
    shape = replace(transformer_config(config, LearnerSettings()), **experts, **parallel)
    spec = get_gpt_decoder_block_spec(shape, use_transformer_engine=False, normalization="RMSNorm")
    for layer in spec.layer_specs:
        layer.submodules.self_attention.submodules.core_attention = FusedCausalAttention
    values = json.loads((hf / "config.json").read_text())
    rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
    with on_device():
        return GPTModel(
            shape,
            spec,
            PADDED_VOCAB,
            config.max_positions,
            pre_process=parallel_state.is_pipeline_first_stage(),
            post_process=parallel_state.is_pipeline_last_stage(),
            share_embeddings_and_output_weights=config.tied,
            position_embedding_type="rope",
            rotary_base=config.rope_theta,
            rope_scaling=rope.get("rope_type") == "llama3",
            rope_scaling_factor=rope.get("factor", 1.0),
        )


def _experts(config: ModelConfig) -> dict[str, Any]:
    """With a list of layers, as slime's launch scripts give it, Megatron numbers them in names."""
    where = [int(config.is_moe(layer)) for layer in range(config.layers)]
    return {
        "moe_layer_freq": where if config.dense_layers else 1,
        "num_moe_experts": config.experts,
        "moe_router_topk": config.experts_per_token,
        "moe_ffn_hidden_size": config.expert_ffn,
        "moe_router_load_balancing_type": "none",
        "moe_token_dispatcher_type": "allgather",  # the other one opens CUDA streams
        "variable_seq_lengths": False,
    }


def fill(model: Any) -> None:
    """Random weights that keep logits near one; norms near one; biases, too."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            around = 1.0 if parameter.dim() == 1 else 0.0
            parameter.copy_(around + 0.15 * torch.randn_like(parameter))


def save(model: Any, hf: Path, folder: Path, iteration: int = 7) -> Path:
    """`folder/iter_NNNNNNN` as Megatron leaves it, with the arguments that slime's tools read."""
    config = ModelConfig.read(hf)
    arguments = Namespace(
        num_layers=config.layers,
        hidden_size=config.hidden,
        num_attention_heads=config.heads,
        num_query_groups=config.groups,
        kv_channels=config.head_dim,
        num_experts=config.experts or None,
        vocab_size=config.vocab,
        q_lora_rank=None,
        advantage_estimator="grpo",
        lr=1e-6,
    )
    target = folder / f"iter_{iteration:07d}"
    target.mkdir(parents=True, exist_ok=True)
    with on_device():
        weights = model.sharded_state_dict()
        common = {"args": arguments, "checkpoint_version": 3.0, "iteration": iteration}
        dist_checkpointing.save({"model": weights, **common}, str(target), InProcessSave())
    (folder / "latest_checkpointed_iteration.txt").write_text(str(iteration))
    return target


def load(model: Any, folder: Path) -> None:
    """Megatron's own way from a checkpoint into a model."""
    with on_device():
        loaded = dist_checkpointing.load({"model": model.sharded_state_dict()}, str(folder))
    model.load_state_dict(loaded["model"])


@torch.no_grad()
def logits(model: Any, tokens_BT: Tensor, vocab: int) -> Tensor:
    """[B, T, V], vocabulary padding left out."""
    tokens = tokens_BT.to(device())
    positions = torch.arange(tokens.shape[1], device=device()).expand_as(tokens)
    with on_device():
        found: Tensor = model(tokens, positions, None)
    return found[..., :vocab].cpu()


def resave(rank: int, grid: dict[str, int], hf: Path, source: Path, target: Path) -> None:
    """One process of a grid that loads a checkpoint and writes what it holds to `target`.

    Args:
        grid: sizes by the names of `initialize_model_parallel`, and "world".
    """
    from megatron.core import parallel_state

    sizes = dict(grid)
    world = sizes.pop("world")
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = torch.distributed.FileStore(str(target.with_suffix(".store")), world)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=world)
    with on_device():
        parallel_state.initialize_model_parallel(**sizes)
    model = make_model(hf, **sizes)
    load(model, source)
    save(model, hf, target)
