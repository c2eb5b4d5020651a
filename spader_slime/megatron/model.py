"""A Megatron-core GPT model in the shape of a Hugging Face config.

Legend: T token position, B sequence of a micro-batch, N chosen positions, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import (
    get_gpt_layer_local_spec,
    get_gpt_layer_with_transformer_engine_spec,
)
from megatron.core.transformer.spec_utils import ModuleSpec
from megatron.core.transformer.transformer_config import TransformerConfig
from megatron.core.transformer.transformer_layer import TransformerLayer
from torch import Tensor

from spader_slime.megatron.attention import FusedCausalAttention
from spader_slime.megatron.cpu import device, has_cuda, on_device
from spader_slime.megatron.settings import LearnerSettings
from spader_slime.megatron.shape import ModelConfig

try:
    import transformer_engine  # noqa: F401

    HAVE_TE = True
except ImportError:
    HAVE_TE = False


class ChoosingLayer(TransformerLayer):
    """A layer whose MLP can be limited to some positions; what follows sees no others."""

    positions: Tensor | None = None  # [N] into the flattened [T, B] grid; None: everywhere

    def _forward_mlp(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if self.positions is not None:
            rows = hidden_states.flatten(0, 1).index_select(0, self.positions)
            hidden_states = rows.unsqueeze(1)
        output: Tensor = super()._forward_mlp(hidden_states, *args, **kwargs)
        return output


class PolicyModel(GPTModel):
    """GPTModel that computes logits only where they are needed."""

    choosing = False  # the last layer hands on the chosen positions only

    def forward_at(self, tokens_BT: Tensor, positions_N: Tensor) -> Tensor:
        """Logits at the chosen positions, or the hidden states before the last stage.

        Returns:
            Last stage: [N, V / tp] vocabulary-parallel logits. Other stages: [T, B, hidden].
        """
        last = self.decoder.layers[-1]
        assert isinstance(last, ChoosingLayer)
        self.choosing = self.post_process
        last.positions = positions_N if self.choosing else None
        try:
            output: Tensor = self(tokens_BT, None, None)
        finally:
            self.choosing, last.positions = False, None
        return output

    def _postprocess(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not self.choosing:
            return super()._postprocess(hidden_states, *args, **kwargs)
        tied = self.share_embeddings_and_output_weights
        weight = self.shared_embedding_or_output_weight() if tied else None
        logits, _ = self.output_layer(hidden_states, weight=weight)
        return logits.squeeze(1)


def build_model(config: ModelConfig, settings: LearnerSettings) -> PolicyModel:
    """This process' part of the model, fp32, weights not yet loaded. The grid must be up."""
    with on_device():
        model = PolicyModel(
            config=transformer_config(config, settings),
            transformer_layer_spec=layer_spec(config),
            vocab_size=config.padded_vocab(settings.tp),
            max_sequence_length=config.max_positions,
            pre_process=parallel_state.is_pipeline_first_stage(),
            post_process=parallel_state.is_pipeline_last_stage(),
            share_embeddings_and_output_weights=config.tied,
            position_embedding_type="rope",
            rotary_base=config.rope_theta,
        )
    return model.to(device())


def layer_spec(config: ModelConfig) -> ModuleSpec:
    """Transformer Engine layers where CUDA and TE are there, else Megatron's local layers."""
    if HAVE_TE and has_cuda():
        spec = get_gpt_layer_with_transformer_engine_spec(qk_layernorm=config.qk_norm)
    else:
        spec = get_gpt_layer_local_spec(qk_layernorm=config.qk_norm, normalization="RMSNorm")
        spec.submodules.self_attention.submodules.core_attention = FusedCausalAttention
    spec.module = ChoosingLayer
    return spec


def transformer_config(config: ModelConfig, settings: LearnerSettings) -> TransformerConfig:
    """Megatron's own configuration: fp32, no dropout, no kernels that need CUDA."""
    return TransformerConfig(
        num_layers=config.layers,
        hidden_size=config.hidden,
        ffn_hidden_size=config.ffn,
        num_attention_heads=config.heads,
        num_query_groups=config.groups,
        kv_channels=config.head_dim,
        normalization="RMSNorm",
        layernorm_epsilon=config.norm_eps,
        qk_layernorm=config.qk_norm,
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        add_qkv_bias=config.qkv_bias,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        tensor_model_parallel_size=settings.tp,
        pipeline_model_parallel_size=settings.pp,
        pipeline_dtype=torch.float32,
        variable_seq_lengths=True,
        moe_token_dispatcher_type="alltoall",  # the default refuses variable lengths, MoE or not
        calculate_per_token_loss=True,
        use_cpu_initialization=not has_cuda(),
        perform_initialization=False,
        gradient_accumulation_fusion=False,
        bias_activation_fusion=False,
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        apply_rope_fusion=False,
        persist_layer_norm=False,
    )
