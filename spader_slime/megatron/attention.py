"""Causal attention for Megatron's local layer spec, through torch's fused kernel.

Megatron's own `DotProductAttention` builds the full [heads, T, T] score matrix and a mask. Batches
here are padded on the right, so a causal mask alone keeps padding out of every real token.
"""

from __future__ import annotations

from typing import Any

import torch
from megatron.core.transformer.enums import AttnMaskType
from megatron.core.transformer.module import MegatronModule
from megatron.core.transformer.transformer_config import TransformerConfig
from torch.nn.functional import scaled_dot_product_attention


class FusedCausalAttention(MegatronModule):
    """Drop-in `core_attention`: query [T, B, heads, width], key and value [T, B, groups, width]."""

    def __init__(
        self,
        config: TransformerConfig,
        layer_number: int,
        attn_mask_type: AttnMaskType,
        attention_type: str,
        softmax_scale: float | None = None,
        **_: Any,
    ) -> None:
        super().__init__(config=config)
        assert attn_mask_type is AttnMaskType.causal and attention_type == "self"
        assert config.attention_dropout == 0.0 and config.context_parallel_size == 1
        self.softmax_scale = softmax_scale

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        **_: Any,
    ) -> torch.Tensor:
        """[T, B, heads * width], every token attending to itself and the tokens before it."""
        assert attention_mask is None, "padding belongs on the right; there is no other mask"
        query, key, value = (x.permute(1, 2, 0, 3) for x in (query, key, value))
        context = scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=self.softmax_scale, enable_gqa=True
        )
        return context.permute(2, 0, 1, 3).flatten(2)
