"""Megatron torch_dist -> Hugging Face folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from spader_slime.checkpoints.building import (
    building,
    check_space,
    check_target,
    copy_bytes,
    file_errors,
    file_of,
    write_all,
)
from spader_slime.checkpoints.card import card_text
from spader_slime.checkpoints.casting import dtype_name
from spader_slime.checkpoints.export_plan import Export, ExportOptions, plan_export
from spader_slime.checkpoints.mapping import Source
from spader_slime.checkpoints.safetensors_files import INDEX, Shard, index_text, write_tensor
from spader_slime.checkpoints.stored import BLOCK
from spader_slime.checkpoints.verify import Verified, verify
from spader_slime.checkpoints.workers import in_parallel
from spader_slime.megatron.export import write_side_files
from spader_slime.megatron.layouts import Layout, to_hf
from spader_slime.megatron.shape import ModelConfig


@file_errors()
def export(options: ExportOptions) -> Verified | None:
    """Make the folder; None unless asked to verify.

    Raises:
        CheckpointError: as `plan_export`, `out` is there, the disk is full, or the logits differ.
    """
    read = [options.checkpoint, options.origin, *filter(None, [options.card.run])]
    target = check_target(options.out, options.replace, "config.json", read)
    plan = plan_export(options)
    card = card_text(options.origin, plan.folder, options.card)
    fingerprint = [
        str(plan.folder.resolve()),
        plan.checkpoint.fingerprint(),
        [[shard.file, shard.header[8:].decode()] for shard in plan.shards],
    ]
    with building(target, fingerprint) as beside:
        _write_shards(plan, beside)
        write_side_files(options.origin, beside, _main_dtype(plan.shards))
        if len(plan.shards) > 1:
            (beside / INDEX).write_text(index_text(plan.shards), encoding="utf-8")
        result = verify(plan.sources, plan.config, beside) if options.verify else None
        (beside / "README.md").write_text(card, encoding="utf-8")
    return result


def _main_dtype(shards: Sequence[Shard]) -> str:
    counts: Counter[torch.dtype] = Counter()
    for slot in (slot for shard in shards for slot in shard.slots.values()):
        counts[slot.dtype] += slot.nbytes
    return dtype_name(counts.most_common(1)[0][0])


def _write_shards(plan: Export, folder: Path) -> None:
    todo = [s for s in plan.shards if not (folder / s.file).exists()]
    total, left = (sum(s.nbytes for s in shards) for shards in (plan.shards, todo))
    check_space(folder, left)
    with tqdm(total=total, initial=total - left, unit="B", unit_scale=True, desc="export") as bar:
        for shard in todo:
            with file_of(folder / shard.file, shard.nbytes) as handle:
                write_all(handle, memoryview(shard.header), 0)
                bar.update(len(shard.header))
                in_parallel(_jobs(plan, _Sink(handle, shard, bar.update)))


@dataclass(frozen=True)
class _Sink:
    """A file that is being written."""

    handle: int
    shard: Shard
    wrote: Callable[[int], object]

    def write(self, name: str, tensor: Tensor, row: int = 0) -> None:
        write_tensor(self.handle, self.shard.slots[name], tensor, self.wrote, row)

    def copy(self, name: str, extents: list[tuple[str, int, int]], row: int) -> None:
        slot = self.shard.slots[name]
        at = slot.offset + row * slot.row_bytes
        for path, start, count in extents:
            copy_bytes(path, start, count, self.handle, at)
            self.wrote(count)
            at += count


def _jobs(plan: Export, sink: _Sink) -> Iterator[tuple[int, Callable[[], None]]]:
    """The work for one file, with the memory that each part of it takes."""
    for source, names in zip(plan.sources, plan.names, strict=True):
        slot = sink.shard.slots.get(names[0])
        if slot is None:
            continue
        if source.parameter.rule.layout is Layout.QKV:
            yield 2 * source.nbytes, partial(_convert, source, names, plan.config, sink)
            continue
        for part, name in enumerate(names):  # one below the other in Megatron's tensor
            for first in range(0, slot.shape[0], slot.block_rows):
                rows = slice(first, min(first + slot.block_rows, slot.shape[0]))
                above = part * slot.shape[0]
                yield 2 * BLOCK, partial(_copy_rows, source, above, rows, name, sink)


def _convert(source: Source, names: Sequence[str], config: ModelConfig, sink: _Sink) -> None:
    parts = to_hf(source.parameter.rule.layout, source.read(), config)
    for name, part in zip(names, parts, strict=True):
        sink.write(name, part)


def _copy_rows(source: Source, above: int, rows: slice, name: str, sink: _Sink) -> None:
    """Rows of a tensor that lies as a whole in Megatron's, `above` rows from its start."""
    theirs = slice(above + rows.start, above + rows.stop)
    same = sink.shard.slots[name].dtype == source.dtype
    extents = source.extents(theirs) if same else None
    if extents is None:
        sink.write(name, source.read(theirs), rows.start)
    else:
        sink.copy(name, extents, rows.start)
