"""Hugging Face folder -> Megatron torch_dist, as slime's own conversion leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from tqdm import tqdm

from spader_slime.checkpoints.building import (
    building,
    check_space,
    check_target,
    file_errors,
)
from spader_slime.checkpoints.casting import KEEP, dtype_of
from spader_slime.checkpoints.distcp import Piece, read_entries, write_file, write_metadata
from spader_slime.checkpoints.locate import RELEASE
from spader_slime.checkpoints.mapping import hf_shapes, refuse_difference
from spader_slime.checkpoints.megatron_args import extra_states, write_common
from spader_slime.checkpoints.safetensors_files import HfWeights
from spader_slime.checkpoints.workers import WORKERS, in_parallel
from spader_slime.errors import CheckpointError
from spader_slime.megatron.folders import TRACKER
from spader_slime.megatron.layouts import Layout, from_hf
from spader_slime.megatron.shape import ModelConfig
from spader_slime.megatron.weights import Parameter, full_size, parameters

_FILE_BYTES = 4 << 30  # of a .distcp file, about
_IGNORED = "rotary_emb.inv_freq"  # old Llama folders store what the config says anyway


@dataclass(frozen=True)
class ImportOptions:
    """What `spader-slime import` is asked for.

    Attributes:
        hf: a Hugging Face folder with safetensors files.
        out: the checkpoint folder to make, with `release/` and a tracker file in it.
        dtype: one of `casting.NAMES`.
        spec: whose names to write, "te" (Transformer Engine layers, slime's) or "local".
        layers: "stacked" (layers as an axis), "numbered" (in names), or "auto": numbered for
            mixtures of experts, whose `--moe-layer-freq` list makes Megatron ask for that.
        replace: an `out` that is there may be replaced.
    """

    hf: Path
    out: Path
    dtype: str = KEEP
    spec: str = "te"
    layers: str = "auto"
    replace: bool = False


@dataclass(frozen=True)
class Import:
    """A planned import: what is read, and the name and place it gets."""

    options: ImportOptions
    config: ModelConfig
    weights: HfWeights
    work: list[tuple[Parameter, Piece]]
    stacked: bool

    def describe(self) -> list[str]:
        """One line per tensor: where it comes from, and what becomes of it."""
        return [f"{', '.join(parameter.hf)} -> {piece}" for parameter, piece in self.work]


@file_errors()
def plan_import(options: ImportOptions) -> Import:
    """Find every tensor and its place in the output; writes nothing.

    Raises:
        CheckpointError: the folder is unreadable, or its tensors are not those of its config.
    """
    config = ModelConfig.read(options.hf)
    if config.quantized:
        raise CheckpointError(f"{options.hf}: quantized weights; import the unquantized model")
    weights = HfWeights(options.hf)
    wanted = list(parameters(config))
    names = [name for parameter in wanted for name in parameter.hf]
    known = {*names, "lm_head.weight"} if config.tied else set(names)
    unknown = [n for n in weights.slots.keys() - known if not n.endswith(_IGNORED)]
    missing = [name for name in names if name not in weights.slots]
    refuse_difference(missing, sorted(unknown), config.family)
    stacked = options.layers == "stacked" or (options.layers == "auto" and not config.experts)
    if stacked and config.dense_layers and config.experts:
        raise CheckpointError("layers that are not all alike can't be stacked: --layers numbered")
    work = [(p, _piece(p, config, weights, options, stacked)) for p in wanted]
    return Import(options, config, weights, work, stacked)


def _piece(
    parameter: Parameter,
    config: ModelConfig,
    weights: HfWeights,
    options: ImportOptions,
    stacked: bool,
) -> Piece:
    slots = [weights.slots[name][1] for name in parameter.hf]
    for slot, shape in zip(slots, hf_shapes(parameter, config), strict=True):
        if slot.shape != shape:
            raise CheckpointError(
                f"{slot.name} has shape {list(slot.shape)}, the config needs {list(shape)}"
            )
    if len({slot.dtype for slot in slots}) > 1 and options.dtype == KEEP:
        raise CheckpointError(f"{', '.join(parameter.hf)}: of different dtypes; name a --dtype")
    dtype = dtype_of(options.dtype, slots[0].dtype)
    name, index, axes = _place(parameter, config, options.spec, stacked)
    return Piece(name, index, axes, full_size(parameter.rule, config), dtype)


def _place(
    parameter: Parameter, config: ModelConfig, spec: str, stacked: bool
) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Name, index into the leading axes, and their lengths."""
    rule, layer, expert = parameter.rule, parameter.layer, parameter.expert
    as_local = spec == "local" and rule.when == "moe" and "norm" in rule.megatron
    template = rule.stored[0] if expert is not None or as_local else rule.megatron
    index: tuple[int, ...] = () if expert is None else (expert,)
    axes: tuple[int, ...] = () if expert is None else (config.experts,)
    if layer is not None and stacked:
        template, index, axes = (
            template.replace("{l}.", ""),
            (layer, *index),
            (config.layers, *axes),
        )
    return template.format_map({"l": layer}), index, axes


@file_errors()
def import_hf(options: ImportOptions) -> Path:
    """Make the checkpoint; its folder.

    Raises:
        CheckpointError: as `plan_import`, `out` is there, or the disk is full.
    """
    target = check_target(options.out, options.replace, TRACKER, [options.hf])
    plan = plan_import(options)
    files = _files([piece for _, piece in plan.work])
    states = [(file.name, file.stat().st_mtime_ns) for file, _ in plan.weights.slots.values()]
    fingerprint = [str(options.hf.resolve()), plan.describe(), sorted({*states})]
    with building(target, fingerprint) as beside:
        folder = beside / RELEASE
        folder.mkdir(exist_ok=True)
        _write_files(plan, files, folder)
        entries = [entry for file in files for entry in read_entries(folder / file)]
        write_metadata(folder, [piece for _, piece in plan.work], entries)
        write_common(folder, plan.config)
        (beside / TRACKER).write_text(RELEASE, encoding="utf-8")
    return options.out


def _files(pieces: Sequence[Piece]) -> dict[str, list[Piece]]:
    """Which piece goes to which file, about evenly."""
    total = sum(piece.nbytes for piece in pieces)
    limit = min(_FILE_BYTES, -(-total // WORKERS))
    packed: list[list[Piece]] = [[]]
    filled = 0
    for piece in pieces:
        if packed[-1] and filled + piece.nbytes > limit:
            packed.append([])
            filled = 0
        packed[-1].append(piece)
        filled += piece.nbytes
    return {f"__0_{number}.distcp": part for number, part in enumerate(packed)}


def _write_files(plan: Import, files: dict[str, list[Piece]], folder: Path) -> None:
    sizes = {file: sum(piece.nbytes for piece in pieces) for file, pieces in files.items()}
    todo = [file for file in files if not (folder / file).exists()]
    total, left = sum(sizes.values()), sum(sizes[file] for file in todo)
    check_space(folder, left)
    by_piece = {piece: parameter for parameter, piece in plan.work}
    states = extra_states(plan.config, plan.options.spec, plan.stacked)
    with tqdm(total=total, initial=total - left, unit="B", unit_scale=True, desc="import") as bar:

        def tensor(piece: Piece) -> torch.Tensor:
            bar.update(piece.nbytes)
            return _tensor(plan, by_piece[piece], piece)

        jobs = []
        for file in todo:
            objects = states if file == next(iter(files)) else []
            largest = max(piece.nbytes for piece in files[file])
            job = partial(write_file, folder / file, files[file], objects, tensor)
            jobs.append((2 * largest, job))
        in_parallel(jobs)


def _tensor(plan: Import, parameter: Parameter, piece: Piece) -> torch.Tensor:
    """The data of a piece; but for attention, what it is made of lies one below the other in it."""
    names = parameter.hf
    rows = [plan.weights.slots[name][1].shape[0] for name in names]
    result = torch.empty((sum(rows), *piece.shape[1:]), dtype=piece.dtype)
    parts = result.split(rows)
    for name, part in zip(names, parts, strict=True):
        plan.weights.fill(name, part)
    if parameter.rule.layout is Layout.QKV:
        return from_hf(Layout.QKV, parts, plan.config, 1)
    return result
