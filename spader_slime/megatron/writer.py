"""torch_dist files written by the process itself.

Megatron's default strategy forks a writer process per file, which is made for checkpoints of many
gigabytes: it needs psutil, and a killed trainer would leave writers behind.
"""

from __future__ import annotations

from pathlib import Path

from megatron.core.dist_checkpointing.mapping import ShardedStateDict
from megatron.core.dist_checkpointing.strategies.base import SaveShardedStrategy
from megatron.core.dist_checkpointing.strategies.torch import (
    MCoreSavePlanner,
    _replace_state_dict_keys_with_sharded_keys,
    mcore_to_pyt_state_dict,
)
from torch.distributed import checkpoint


class InProcessSave(SaveShardedStrategy):
    """Saves in the torch_dist format, version 1, without helper processes."""

    def __init__(self) -> None:
        super().__init__("torch_dist", 1)

    @property
    def can_handle_sharded_objects(self) -> bool:
        return True

    def save(self, sharded_state_dict: ShardedStateDict, checkpoint_dir: str | Path) -> None:
        """Write this process' shards; all processes of the grid call it."""
        tensors, _, _ = _replace_state_dict_keys_with_sharded_keys(sharded_state_dict, True)
        checkpoint.save_state_dict(
            mcore_to_pyt_state_dict(tensors, False),
            checkpoint.FileSystemWriter(checkpoint_dir, thread_count=1, sync_files=False),
            planner=MCoreSavePlanner(dedup_replicated_tensors=False, flatten_state_dict=False),
        )
