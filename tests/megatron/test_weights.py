"""Layouts of parameters: splitting, joining, and the order of rows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spader_slime.megatron.layouts import Layout, from_hf, shard, to_hf, unshard
from spader_slime.megatron.shape import ModelConfig
from spader_slime.megatron.weights import canonical, parameters


def config(groups: int = 2, queries: int = 3, head_dim: int = 4, vocab: int = 11) -> ModelConfig:
    return ModelConfig(
        family="qwen3",
        hidden=8,
        layers=2,
        heads=groups * queries,
        groups=groups,
        head_dim=head_dim,
        ffn=12,
        vocab=vocab,
        max_positions=64,
        rope_theta=1e4,
        norm_eps=1e-6,
        tied=True,
        qkv_bias=False,
        qk_norm=True,
    )


def parts(layout: Layout, shape: ModelConfig) -> tuple[torch.Tensor, ...]:
    rows = {
        Layout.QKV: (shape.heads * shape.head_dim, *[shape.groups * shape.head_dim] * 2),
        Layout.GATE_UP: (shape.ffn, shape.ffn),
        Layout.VOCAB: (shape.vocab,),
    }.get(layout, (shape.hidden,))
    return tuple(torch.randn(n, 8) for n in rows)


@given(
    st.sampled_from(list(Layout)),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(5, 13),
)
def test_there_and_back(layout: Layout, tp: int, groups: int, queries: int, vocab: int) -> None:
    shape = config(groups * tp, queries, vocab=vocab)
    tensors = parts(layout, shape)
    full = from_hf(layout, tensors, shape, tp)
    shards = [shard(layout, full, rank, tp) for rank in range(tp)]
    assert layout is Layout.WHOLE or len({s.shape for s in shards}) == 1
    assert torch.equal(unshard(layout, shards), full)
    assert all(map(torch.equal, to_hf(layout, full, shape), tensors))


def test_rows_of_a_fused_projection() -> None:
    """Each key-value head's queries, key and value lie together, so that ranks can share them."""
    shape = config(groups=2, queries=2, head_dim=1)
    named = [torch.tensor(rows)[:, None] for rows in ([0, 1, 2, 3], [10, 11], [20, 21])]
    full = from_hf(Layout.QKV, named, shape, 1)
    assert full.flatten().tolist() == [0, 1, 10, 20, 2, 3, 11, 21]


def test_a_ranks_share_of_gate_and_up() -> None:
    full = from_hf(Layout.GATE_UP, [torch.arange(4), torch.arange(10, 14)], config(), 2)
    assert shard(Layout.GATE_UP, full, 1, 2).tolist() == [2, 3, 12, 13]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "decoder.layers.1.input_layernorm.weight",
            "5.self_attention.linear_qkv.layer_norm_weight",
        ),
        ("decoder.layers.0.pre_mlp_layernorm.weight", "4.mlp.linear_fc1.layer_norm_weight"),
        ("decoder.layers.0.mlp.linear_fc2.weight", "4.mlp.linear_fc2.weight"),
    ],
)
def test_names_do_not_depend_on_the_stage(name: str, expected: str) -> None:
    assert canonical(name, 4, False) == f"decoder.layers.{expected}"


def test_every_hugging_face_name_occurs_once() -> None:
    names = [hf for parameter in parameters(config()) for hf in parameter.hf]
    assert len(names) == len(set(names)) == 2 + 2 * 11
