"""How the GPUs are shared out."""

from __future__ import annotations

from dataclasses import dataclass

from spader_slime.doctor.flags import Flags


@dataclass(frozen=True)
class Sizes:
    """Parallel sizes of the trainer.

    Attributes:
        world: its GPUs.
        tensor, pipeline, context, expert, expert_tensor: sizes of the groups.
    """

    world: int
    tensor: int
    pipeline: int
    context: int
    expert: int
    expert_tensor: int

    @property
    def model(self) -> int:
        """GPUs that hold one copy of the model and one share of the data."""
        return self.tensor * self.pipeline * self.context

    @property
    def data(self) -> int:
        """Data-parallel size; 0 where the GPUs are too few."""
        return self.world // self.model


def read_sizes(flags: Flags) -> Sizes:
    """Sizes that the flags give, with slime's defaults.

    Raises:
        ConfigError: a size that is not a whole number of at least 1.
    """
    tensor = flags.count("tensor-model-parallel-size", 1)
    return Sizes(
        world=flags.count("actor-num-nodes", 1) * flags.count("actor-num-gpus-per-node", 8),
        tensor=tensor,
        pipeline=flags.count("pipeline-model-parallel-size", 1),
        context=flags.count("context-parallel-size", 1),
        expert=flags.count("expert-model-parallel-size", 1),
        expert_tensor=flags.count("expert-tensor-parallel-size", tensor),
    )
