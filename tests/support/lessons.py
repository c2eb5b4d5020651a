"""Teachers that say something random, for tests of what is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from spader_slime.algorithms.distillation import entropy
from spader_slime.algorithms.teacher_scores import TeacherScores

TEACHER = "http://127.0.0.1:9/generate"  # nothing listens there


def distilling(**options: Any) -> dict[str, Any]:
    """The mapping under `spader:` with a teacher."""
    return {"distillation": {"urls": [TEACHER], "top_k": 3, **options}}


def taught(
    tokens: Sequence[int] | Tensor, mask: Sequence[int] | Tensor, vocab: int, top_k: int, seed: int
) -> TeacherScores:
    """Scores of the response, which is as long as `mask`; sure here, unsure there; gates shut."""
    source = torch.Generator().manual_seed(seed)
    weight_T = torch.as_tensor(mask).float()
    ids_T = torch.as_tensor(tokens)[len(tokens) - len(weight_T) :]
    sharpness = 4 * torch.rand(len(weight_T), 1, generator=source)
    full = (sharpness * torch.randn(len(weight_T), vocab, generator=source)).log_softmax(-1)
    own_T, top = full.gather(1, ids_T[:, None])[:, 0], full.topk(top_k)
    zeros = torch.zeros_like(weight_T)
    return TeacherScores(own_T, entropy(full), weight_T, zeros, top.indices, top.values)


def gated(scores: TeacherScores, threshold: float) -> TeacherScores:
    """The same with the gate open above an entropy."""
    gate_T = (scores.weight_T > 0) & (scores.entropy_T > threshold)
    return replace(scores, gate_T=gate_T.float())
