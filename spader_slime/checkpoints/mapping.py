"""Which stored tensor is which parameter of a model, and where they disagree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from spader_slime.checkpoints.casting import dtype_name
from spader_slime.checkpoints.entries import DTYPES
from spader_slime.checkpoints.stored import StoredTensor
from spader_slime.errors import CheckpointError
from spader_slime.megatron.layouts import Layout, to_hf
from spader_slime.megatron.shape import ModelConfig
from spader_slime.megatron.weights import Parameter, full_size, parameters

_SHOWN = 3  # names in an error
MOST_PADDING = 128 * 64  # rows: Megatron pads to multiples of 128 x tensor-parallel size
Place = tuple[str, tuple[int, ...], tuple[int, ...]]  # stored name, index, lengths of its axes


@dataclass(frozen=True)
class Source:
    """A parameter and the part of the checkpoint that holds it.

    Attributes:
        stored: the tensor or, for gate and up stored apart, the two of them.
        index: into its leading axes: layer, expert; empty if names say it.
        axes: how long these axes should be.
    """

    parameter: Parameter
    stored: tuple[StoredTensor, ...]
    index: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the full Megatron tensor, vocabulary padding included."""
        rows, *rest = self.stored[0].shape[len(self.index) :]
        return (rows * len(self.stored), *rest)

    @property
    def dtype(self) -> torch.dtype:
        """As stored."""
        return self.stored[0].dtype

    @property
    def nbytes(self) -> int:
        """Memory that the full tensor takes."""
        return prod(self.shape) * self.dtype.itemsize

    def read(self, rows: slice | None = None) -> Tensor:
        """The full Megatron tensor, or these rows of it, all in one stored tensor."""
        if rows is not None:
            stored, own = self._holding(rows)
            return stored.read(self.index, own)
        parts = [stored.read(self.index) for stored in self.stored]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def extents(self, rows: slice) -> list[tuple[str, int, int]] | None:
        """As `StoredTensor.extents`."""
        stored, own = self._holding(rows)
        return stored.extents(self.index, own)

    def _holding(self, rows: slice) -> tuple[StoredTensor, slice]:
        part, first = divmod(rows.start, self.stored[0].shape[len(self.index)])
        return self.stored[part], slice(first, first + rows.stop - rows.start)

    def describe(self) -> str:
        """`decoder.layers.mlp.linear_fc2.weight[3] 8x16 float32`."""
        names = " + ".join(stored.name for stored in self.stored)
        index = "".join(f"[{at}]" for at in self.index)
        return f"{names}{index} {'x'.join(map(str, self.shape))} {dtype_name(self.dtype)}"


def match(tensors: Mapping[str, StoredTensor], config: ModelConfig) -> list[Source]:
    """A source for every parameter, in the order of the table.

    Raises:
        CheckpointError: parameters without a tensor, tensors without a parameter, or other shapes;
            names some of each.
    """
    found, missing = [], []
    for parameter in parameters(config):
        source = _find(parameter, tensors, config)
        if source is None:
            missing.append(parameter.name)
        else:
            found.append(source)
    used = {stored.name for source in found for stored in source.stored}
    refuse_difference(missing, sorted(tensors.keys() - used), config.family)
    for source in found:
        _check_shape(source, config)
    return found


def refuse_difference(missing: Sequence[str], unknown: Sequence[str], family: str) -> None:
    """Raise CheckpointError unless both lists are empty."""
    parts = [
        f"{title} {', '.join(names[:_SHOWN])}"
        + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        for title, names in (("missing:", missing), ("without a rule:", unknown))
        if names
    ]
    if parts:
        raise CheckpointError(
            f"these are not the tensors of this {family} model; {'; '.join(parts)}"
        )


def _find(
    parameter: Parameter, tensors: Mapping[str, StoredTensor], config: ModelConfig
) -> Source | None:
    for name, index, axes in _places(parameter, config):
        if name in tensors:
            return Source(parameter, (tensors[name],), index, axes)
        halves = name + "_w", name + "_v"
        if parameter.rule.layout is Layout.GATE_UP and all(half in tensors for half in halves):
            return Source(parameter, tuple(tensors[half] for half in halves), index, axes)
    return None


def _places(parameter: Parameter, config: ModelConfig) -> Iterator[Place]:
    """Names and indices under which checkpoints may hold the parameter."""
    layer, expert, rule = parameter.layer, parameter.expert, parameter.rule
    at = {"l": layer, "e": expert}
    for template in (rule.megatron, *rule.stored):
        index: tuple[int, ...] = ()
        axes: tuple[int, ...] = ()
        if expert is not None and "{e}" not in template:
            index, axes = (expert,), (config.experts,)
        yield template.format_map(at), index, axes
        if layer is not None:
            stacked = template.replace("{l}.", "").format_map(at)
            yield stacked, (layer, *index), (config.layers, *axes)


def _check_shape(source: Source, config: ModelConfig) -> None:
    rule, stored = source.parameter.rule, source.stored[0]
    rows, *rest = full_size(rule, config)
    rows //= len(source.stored)
    if rule.layout is Layout.VOCAB and rows < stored.shape[0] < rows + MOST_PADDING:
        rows = stored.shape[0]
    expected = (*source.axes, rows, *rest)
    if any(part.shape != expected for part in source.stored):
        raise CheckpointError(
            f"{stored.name} has shape {list(stored.shape)}, the config of this {config.family} "
            f"model needs {list(expected)}"
        )
    if stored.dtype not in DTYPES:
        raise CheckpointError(f"{stored.name}: {stored.dtype} can't be converted")


def hf_shapes(parameter: Parameter, config: ModelConfig) -> list[tuple[int, ...]]:
    """Shapes of a parameter's Hugging Face tensors."""
    full = torch.empty(full_size(parameter.rule, config), device="meta")
    return [tuple(part.shape) for part in to_hf(parameter.rule.layout, full, config)]
