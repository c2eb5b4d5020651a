"""Which tokens the forward KL applies to, over a batch, against slow loops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spader_slime.algorithms.teacher_scores import SINGLES, no_scores, unpack
from spader_slime.config import DistillationConfig
from spader_slime.teaching import gate_batch

TOP_K, WIDTH, VOCAB = 3, SINGLES + 2 * 3, 31
KINDS = ("scored", "removed", "lost", "not asked", "too long", "too wide", "flat")
tokens = st.tuples(st.sampled_from([0.0, 0.5, 1.5]) | st.floats(0, 3, width=32), st.booleans())
batches = st.lists(st.tuples(st.sampled_from(KINDS), st.lists(tokens, max_size=6)), max_size=6)
gates = st.one_of(
    st.builds(lambda v: {"entropy_threshold": v}, st.sampled_from([0.0, 0.5]) | st.floats(0, 3)),
    st.builds(lambda v: {"entropy_quantile": v}, st.sampled_from([0, 0.5, 1]) | st.floats(0, 1)),
    st.just({}),
)


def sample_of(kind: str, rows: list[tuple[float, bool]], masked: bool) -> Any:
    """A sample whose tokens have these entropies and weights, or one that was not judged."""
    length = len(rows)
    packed = no_scores(length, TOP_K).pack()
    if kind != "lost" and length:
        packed[:, 1], packed[:, 2] = torch.tensor(rows).unbind(1)
    mask = [int(on and not (masked and place == 0)) for place, (_, on) in enumerate(rows)]
    other: dict[str, Any] = {
        "not asked": None,
        "too long": torch.ones(length + 1, WIDTH),
        "too wide": torch.ones(length, WIDTH + 2),
        "flat": [0.5] * length,
    }
    return SimpleNamespace(
        response_length=length,
        loss_mask=mask,
        remove_sample=kind == "removed",
        teacher_log_probs=other.get(kind, packed),
    )


@settings(max_examples=150, deadline=None)
@given(batches, gates, st.booleans())
def test_gates(
    rows: list[tuple[str, list[tuple[float, bool]]]], gate: dict[str, Any], masked: bool
) -> None:
    """A token is gated when its entropy is above the threshold, or when a share `quantile` of all
    trained tokens lies below it; tokens that the host has masked since do not count."""
    samples = [sample_of(*one, masked) for one in rows]
    config = DistillationConfig(urls=["http://a"], top_k=TOP_K, **gate)
    gate_batch(samples, config)
    trained = [
        [
            kind == "scored" and on and not (masked and place == 0)
            for place, (_, on) in enumerate(own)
        ]
        for kind, own in rows
    ]
    pool = [
        entropy
        for (_, own), learned in zip(rows, trained, strict=True)
        for (entropy, _), on in zip(own, learned, strict=True)
        if on
    ]
    for sample, (_, own), learned in zip(samples, rows, trained, strict=True):
        assert sample.teacher_log_probs.shape == (len(own), WIDTH)
        scores = unpack(sample.teacher_log_probs)
        assert scores.weight_T.tolist() == learned
        opened = []
        for (entropy, _), on in zip(own, learned, strict=True):
            above = entropy > gate.get("entropy_threshold", 0.0)
            if "entropy_threshold" not in gate:
                below = sum(other < entropy for other in pool)
                above = below >= gate.get("entropy_quantile", 0.8) * len(pool) - 1e-9
            opened.append(on and above)
        assert scores.gate_T.tolist() == opened
    once = [sample.teacher_log_probs.clone() for sample in samples]
    gate_batch(samples, config)
    assert all(map(torch.equal, once, [sample.teacher_log_probs for sample in samples]))
