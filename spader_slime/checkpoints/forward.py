"""A decoder layer computed from Megatron's own tensors, for `--verify`.

Written from Megatron's layouts and independent of `layouts.py`: a fault there shows up as other
logits. fp32 on the CPU, one sequence per row, no cache.

Legend: B sequence, T token position, H head, G key-value head, D head dimension.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

from spader_slime.megatron.shape import ModelConfig

Get = Callable[[str], Tensor]  # a tensor of the layer by the end of its Megatron name
Rotation = tuple[Tensor, Tensor]  # cosines and sines, [T, D]


def layer(x_BTE: Tensor, get: Get, config: ModelConfig, rotation: Rotation, moe: bool) -> Tensor:
    """The layer's output."""
    normed = rms_norm(
        x_BTE, x_BTE.shape[-1:], get("self_attention.linear_qkv.layer_norm_weight"), config.norm_eps
    )
    x_BTE = x_BTE + attention(normed, get, config, rotation)
    norm = "pre_mlp_layernorm.weight" if moe else "mlp.linear_fc1.layer_norm_weight"
    normed = rms_norm(x_BTE, x_BTE.shape[-1:], get(norm), config.norm_eps)
    if moe:
        return x_BTE + mixture(normed, get, config)
    return x_BTE + mlp(normed, get("mlp.linear_fc1.weight"), get("mlp.linear_fc2.weight"))


def attention(x_BTE: Tensor, get: Get, config: ModelConfig, rotation: Rotation) -> Tensor:
    """Causal attention; rows of the fused projection are grouped by key-value head."""
    bias = get("self_attention.linear_qkv.bias") if config.qkv_bias else None
    fused = linear(x_BTE, get("self_attention.linear_qkv.weight"), bias)
    queries = config.heads // config.groups
    fused = fused.unflatten(-1, (config.groups, queries + 2, config.head_dim))
    q_BTHD = fused[..., :queries, :].flatten(2, 3)
    k_BTGD, v_BTGD = fused[..., queries, :], fused[..., queries + 1, :]
    if config.qk_norm:
        size = (config.head_dim,)
        q_BTHD = rms_norm(q_BTHD, size, get("self_attention.q_layernorm.weight"), config.norm_eps)
        k_BTGD = rms_norm(k_BTGD, size, get("self_attention.k_layernorm.weight"), config.norm_eps)
    q, k, v = (
        t.transpose(1, 2) for t in (rotate(q_BTHD, rotation), rotate(k_BTGD, rotation), v_BTGD)
    )
    k, v = (t.repeat_interleave(queries, dim=1) for t in (k, v))
    mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
    return linear(mixed.transpose(1, 2).flatten(2), get("self_attention.linear_proj.weight"))


def rotate(x_BTHD: Tensor, rotation: Rotation) -> Tensor:
    """Rotary position embedding, halves (not pairs) of the head dimension together."""
    cos, sin = (t[:, None, :] for t in rotation)
    first, second = x_BTHD.chunk(2, dim=-1)
    return x_BTHD * cos + torch.cat((-second, first), dim=-1) * sin


def mlp(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """SwiGLU: the first half of the rows is the gate."""
    gate, up = linear(x, gate_up).chunk(2, dim=-1)
    return linear(silu(gate) * up, down)


def mixture(x_BTE: Tensor, get: Get, config: ModelConfig) -> Tensor:
    """Softmax over experts, then the best `top_k`, whose weights are made to sum to one if the
    config says so."""
    x = x_BTE.flatten(0, 1)
    scores = linear(x, get("mlp.router.weight")).softmax(-1)
    weights, chosen = scores.topk(config.experts_per_token, dim=-1)
    if config.norm_topk:
        weights = weights / weights.sum(-1, keepdim=True)
    result = torch.zeros_like(x)
    for expert in chosen.unique().tolist():
        token, rank = (chosen == expert).nonzero(as_tuple=True)
        gate_up, down = (get(f"mlp.experts.linear_fc{n}.weight{expert}") for n in (1, 2))
        result.index_add_(0, token, mlp(x[token], gate_up, down) * weights[token, rank, None])
    return result.view_as(x_BTE)
