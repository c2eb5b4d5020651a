"""Which part of which parameter this process holds, and moving weights in and out of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn import Parameter

from spader_slime.errors import CheckpointError
from spader_slime.megatron.layouts import Layout, from_hf, shard, to_hf
from spader_slime.megatron.layouts import unshard as join
from spader_slime.megatron.model import PolicyModel
from spader_slime.megatron.shape import ModelConfig
from spader_slime.megatron.weights import Rule, canonical, parameters


@dataclass(frozen=True)
class Placed:
    """One parameter of this process.

    Attributes:
        local: its name in `model.named_parameters()`.
        name: its name in a checkpoint, the same for every process grid.
        rule, hf: its line of the family's table, and its Hugging Face names.
        copy: a second copy of a tied embedding, held by the last stage.
    """

    local: str
    name: str
    parameter: Parameter
    rule: Rule
    hf: tuple[str, ...]
    copy: bool

    @property
    def sharded(self) -> bool:
        """Tensor-parallel ranks hold different parts."""
        return self.rule.layout is not Layout.WHOLE


def place(model: PolicyModel, config: ModelConfig) -> list[Placed]:
    """Match the model's parameters with the family's table.

    Raises:
        CheckpointError: a parameter without a rule.
    """
    table = {p.name: (p.rule, p.hf) for p in parameters(config)}
    layers = model.decoder.layers
    first_layer = layers[0].layer_number - 1 if len(layers) else 0
    placed = []
    for local, parameter in model.named_parameters():
        name = canonical(local, first_layer, config.tied)
        if name not in table:
            raise CheckpointError(f"no rule for the parameter {name!r}")
        copy = bool(getattr(parameter, "shared", False))
        placed.append(Placed(local, name, parameter, *table[name], copy))
    return placed


def load_hf(placed: list[Placed], config: ModelConfig, folder: str | Path) -> None:
    """Fill the parameters from a Hugging Face folder.

    Raises:
        CheckpointError: files or tensors are missing, unreadable or of another shape.
    """
    with HfTensors(folder) as tensors, torch.no_grad():
        for item in placed:
            part = _own_part(item, [tensors[name] for name in item.hf], config)
            if part is None or part.shape != item.parameter.shape:
                raise CheckpointError(f"{folder}: {item.hf} do not fit {item.name}")
            item.parameter.copy_(part)


def _own_part(item: Placed, parts: list[Tensor], config: ModelConfig) -> Tensor | None:
    """What this process holds of a parameter; None if the tensors can't be put together."""
    tp = parallel_state.get_tensor_model_parallel_world_size()
    rank = parallel_state.get_tensor_model_parallel_rank()
    if item.rule.layout is Layout.VOCAB and len(parts[0]) != config.vocab:
        return None
    try:
        return shard(item.rule.layout, from_hf(item.rule.layout, parts, config, tp), rank, tp)
    except (RuntimeError, IndexError):
        return None


class HfTensors:
    """Read-only view of a folder's safetensors files by tensor name."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._files = ExitStack()

    def __enter__(self) -> HfTensors:
        try:
            opened = [
                self._files.enter_context(safe_open(self.folder / file, framework="pt"))
                for file in self._names()
            ]
        except (OSError, SafetensorError, ValueError, KeyError) as error:
            self._files.close()
            raise CheckpointError(f"{self.folder}: unreadable weights ({error})") from error
        self._where = {name: file for file in opened for name in file.keys()}  # noqa: SIM118
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def _names(self) -> list[str]:
        index = self.folder / "model.safetensors.index.json"
        if index.exists():
            return sorted(set(json.loads(index.read_text())["weight_map"].values()))
        return ["model.safetensors"]

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._where:
            raise CheckpointError(f"{self.folder}: no tensor named {name!r}")
        tensor: Tensor = self._where[name].get_tensor(name)
        return tensor


def gather_hf(placed: list[Placed], config: ModelConfig) -> dict[str, Tensor]:
    """Hugging Face tensors of the whole model on world rank 0; nothing elsewhere.

    Every process has to call it. Tensors are on the CPU, in the order of the family's table.
    """
    own = {p.name: join(p.rule.layout, _all_parts(p)) for p in placed if not p.copy}
    if parallel_state.get_tensor_model_parallel_rank() or parallel_state.get_data_parallel_rank():
        return {}
    collected = dict(_from_stages(own))
    if dist.get_rank() != 0:
        return {}
    return {
        hf_name: tensor.cpu().contiguous()
        for p in parameters(config)
        for hf_name, tensor in zip(
            p.hf, to_hf(p.rule.layout, collected[p.name], config), strict=True
        )
    }


def _all_parts(item: Placed) -> list[Tensor]:
    group = parallel_state.get_tensor_model_parallel_group()
    mine = item.parameter.detach()
    if not item.sharded or group.size() == 1:
        return [mine]
    parts = [torch.empty_like(mine) for _ in range(group.size())]
    dist.all_gather(parts, mine.contiguous(), group=group)
    return parts


def _from_stages(own: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """On the first stage: everything; on later ones: what they sent there, one tensor at a time."""
    group = parallel_state.get_pipeline_model_parallel_group()
    first = dist.get_global_rank(group, 0)
    shapes: list[dict[str, torch.Size]] = [{} for _ in range(group.size())]
    if group.size() > 1:
        dist.all_gather_object(shapes, {k: v.shape for k, v in own.items()}, group=group)
    yield from own.items()
    if dist.get_rank() != first:
        for tensor in own.values():
            dist.send(tensor.contiguous(), first, group=group)
        return
    like = next(iter(own.values()))
    for stage in range(1, group.size()):
        for name, shape in shapes[stage].items():
            tensor = like.new_empty(shape)
            dist.recv(tensor, dist.get_global_rank(group, stage), group=group)
            yield name, tensor
