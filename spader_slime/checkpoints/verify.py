"""The logits of a checkpoint and of the Hugging Face folder made of it, side by side.

One side is `forward.py` over the checkpoint's tensors, the other transformers over the folder's
files. Both hold one layer at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from spader_slime.checkpoints.forward import layer
from spader_slime.checkpoints.hf_side import HfSide
from spader_slime.checkpoints.mapping import Source
from spader_slime.errors import CheckpointError
from spader_slime.megatron.shape import ModelConfig

SEQUENCES, LENGTH = 3, 24  # tokens that both sides read, drawn from the whole vocabulary
TOLERANCE = 1e-4  # of the largest logit: fp32 sums in another order stay well below
_ROWS = 16384  # of the output layer at a time


@dataclass(frozen=True)
class Verified:
    """Largest absolute difference of two logits, and the largest logit."""

    difference: float
    largest: float
    logits: int

    def __str__(self) -> str:
        return (
            f"verified: {self.logits} logits, largest difference {self.difference:.2e} "
            f"(largest logit {self.largest:.2e})"
        )


@torch.no_grad()
def verify(sources: Sequence[Source], config: ModelConfig, folder: Path) -> Verified:
    """Compare the logits of random sequences.

    Args:
        sources: the checkpoint's tensors.
        folder: the Hugging Face folder.

    Raises:
        CheckpointError: they differ by more than fp32 rounding.
    """
    source = torch.Generator().manual_seed(0)
    tokens = torch.randint(config.vocab, (SEQUENCES, LENGTH), generator=source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = HfSide(folder, config)
    ours = _MegatronSide(sources, config, theirs)
    x, y = ours.embed(tokens), theirs.embed(tokens)
    for number in tqdm(range(config.layers), desc="verify", unit="layer"):
        x, y = ours.layer(number, x), theirs.layer(number, y)
    result = _compare(ours.normed(x), theirs.normed(y), ours, theirs)
    if not result.difference <= TOLERANCE * max(1.0, result.largest):
        raise CheckpointError(
            f"the folder's logits differ from the checkpoint's by {result.difference:.2e} "
            f"(largest logit {result.largest:.2e})"
        )
    return result


def _compare(x: Tensor, y: Tensor, ours: _MegatronSide, theirs: HfSide) -> Verified:
    difference, largest, count = 0.0, 0.0, 0
    head, other = ours.head(), theirs.head()
    for start in range(0, len(other), _ROWS):
        rows = slice(start, min(start + _ROWS, len(other)))
        a, b = (h @ w[rows].float().T for h, w in ((x, head), (y, other)))
        gap = (a - b).abs().max()
        difference = max(difference, float(gap)) if gap.isfinite() else float("inf")
        largest, count = max(largest, float(b.abs().max())), count + b.numel()
    return Verified(difference, largest, count)


class _MegatronSide:
    """`forward.py` over the checkpoint; values are rounded as the folder's dtype rounds them."""

    def __init__(self, sources: Sequence[Source], config: ModelConfig, other: HfSide) -> None:
        self._sources = {source.parameter.name: source for source in sources}
        self._config, self._other = config, other
        self._rotation = _rotation(other.hf, config)

    def _get(self, name: str) -> Tensor:
        source = self._sources[name]
        return source.read().to(self._other.dtype(source.parameter.hf[0]))

    def embed(self, tokens: Tensor) -> Tensor:
        """Rows of the embedding."""
        return self._get("embedding.word_embeddings.weight")[tokens].float()

    def head(self) -> Tensor:
        """The output layer, padding included."""
        tied = self._config.tied
        return self._get("embedding.word_embeddings.weight" if tied else "output_layer.weight")

    def normed(self, x: Tensor) -> Tensor:
        """The final norm's output."""
        weight = self._get("decoder.final_layernorm.weight").float()
        return nn.functional.rms_norm(x, x.shape[-1:], weight, self._config.norm_eps)

    def layer(self, number: int, x: Tensor) -> Tensor:
        """Layer `number`'s output."""
        prefix = f"decoder.layers.{number}."
        moe = self._config.is_moe(number)
        return layer(
            x, lambda name: self._get(prefix + name).float(), self._config, self._rotation, moe
        )


def _rotation(hf: Any, config: ModelConfig) -> tuple[Tensor, Tensor]:
    """Cosines and sines, with the frequencies that the config's rope type asks for."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = getattr(hf, "rope_parameters", None) or getattr(hf, "rope_scaling", None) or {}
    kind = rope.get("rope_type", "default")
    scale = 1.0
    if kind == "default":
        steps = torch.arange(0, config.head_dim, 2).float() / config.head_dim
        frequencies = 1.0 / config.rope_theta**steps
    else:
        frequencies, scale = ROPE_INIT_FUNCTIONS[kind](hf, torch.device("cpu"), seq_len=LENGTH)
    angles = torch.outer(torch.arange(LENGTH).float(), frequencies).repeat(1, 2)
    return angles.cos() * scale, angles.sin() * scale
