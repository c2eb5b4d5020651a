"""What becomes of a Megatron checkpoint, tensor by tensor, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spader_slime.checkpoints.building import file_errors
from spader_slime.checkpoints.card import CardFacts
from spader_slime.checkpoints.casting import KEEP, dtype_of
from spader_slime.checkpoints.locate import find_checkpoint
from spader_slime.checkpoints.mapping import Source, hf_shapes, match
from spader_slime.checkpoints.run_facts import read_arguments
from spader_slime.checkpoints.safetensors_files import HfWeights, Shard, Slot, plan_shards
from spader_slime.checkpoints.torch_dist import TorchDist
from spader_slime.errors import CheckpointError
from spader_slime.megatron.shape import ModelConfig

HEAD = "lm_head.weight"


@dataclass(frozen=True)
class ExportOptions:
    """What `spader-slime export` is asked for.

    Attributes:
        checkpoint: an `iter_NNNNNNN` or `release` folder, or the folder that holds them.
        origin: the Hugging Face folder that training started from.
        out: the folder to make.
        dtype: one of `casting.NAMES`.
        shard_bytes: most bytes of tensors in one file.
        replace: an `out` that is there may be replaced.
        verify: compare logits with the checkpoint's before `out` appears.
        card: what the model card says beyond what is found.
    """

    checkpoint: Path
    origin: Path
    out: Path
    dtype: str = KEEP
    shard_bytes: int = 5_000_000_000
    replace: bool = False
    verify: bool = False
    card: CardFacts = field(default_factory=CardFacts)


@dataclass(frozen=True)
class Export:
    """A planned export: sources, and the files that their tensors go to."""

    folder: Path
    config: ModelConfig
    sources: list[Source]
    names: list[tuple[str, ...]]  # Hugging Face tensors made of each source
    shards: list[Shard]
    checkpoint: TorchDist

    def describe(self) -> list[str]:
        """One line per source: where it lies, and what becomes of it."""
        return [
            f"{source.describe()} -> {', '.join(names)}"
            for source, names in zip(self.sources, self.names, strict=True)
        ]


@file_errors()
def plan_export(options: ExportOptions) -> Export:
    """Find every tensor and its place in the output; writes nothing.

    Raises:
        CheckpointError: the checkpoint is unreadable, half-written, hostile or of another model.
    """
    folder = find_checkpoint(options.checkpoint)
    config = ModelConfig.read(options.origin)
    _check_vocabulary(folder, config)
    checkpoint = TorchDist(folder)
    sources = sorted(match(checkpoint.tensors, config), key=_order)
    named = [(source, source.parameter.hf) for source in sources]
    if config.tied and _has_head(options.origin):
        named.append((sources[0], (HEAD,)))
    groups = [_slots(source, names, config, options.dtype) for source, names in named]
    shards = plan_shards(groups, options.shard_bytes)
    return Export(folder, config, [s for s, _ in named], [n for _, n in named], shards, checkpoint)


def _check_vocabulary(folder: Path, config: ModelConfig) -> None:
    """Rows beyond the config's are padding only if the training knew no more of them either."""
    trained = read_arguments(folder).get("vocab_size")
    if isinstance(trained, int) and trained > config.vocab:
        raise CheckpointError(
            f"{folder} was trained with a vocabulary of {trained}, the config of this "
            f"{config.family} model has {config.vocab}"
        )


def _slots(source: Source, names: Sequence[str], config: ModelConfig, dtype: str) -> list[Slot]:
    shapes = hf_shapes(source.parameter, config)
    return [
        Slot(name, shape, dtype_of(dtype, source.dtype))
        for name, shape in zip(names, shapes, strict=True)
    ]


def _order(source: Source) -> tuple[int, int]:
    """Embedding, layers in order, the rest."""
    layer = source.parameter.layer
    if layer is not None:
        return 1, layer
    return (0 if source.parameter.name.startswith("embedding") else 2), 0


def _has_head(origin: Path) -> bool:
    """Some folders of tied models store the head all the same; their export does, too."""
    return any(origin.glob("*.safetensors")) and HEAD in HfWeights(origin).slots
