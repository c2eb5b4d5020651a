"""The model over the key-value cache: packed tokens in, logits out; weights replaced in place."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import AutoModelForCausalLM

from spader_slime.errors import EngineError
from spader_slime.local.engine.attention import NAME, PLAN, Group, Plan, SlotCache


@dataclass(frozen=True)
class Piece:
    """New tokens of one row.

    Attributes:
        row: of the cache.
        start: position of the first of them.
        ids: int64 [M].
        keep: logits are wanted from this one on (index into `ids`).
    """

    row: int
    start: int
    ids: NDArray[np.int64]
    keep: int


class Runner:
    """A causal language model from a Hugging Face folder.

    Args:
        folder: config and safetensors.
        rows, width: sequences held at once, tokens of each.

    Raises:
        EngineError: the folder can't be loaded.
    """

    def __init__(self, folder: Path, rows: int, width: int) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        dtype = torch.float32 if self.device.type == "cpu" else "auto"
        try:
            model: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, attn_implementation=NAME, local_files_only=True
            )
        except (OSError, ValueError, SafetensorError) as error:
            raise EngineError(f"{folder} can't be loaded: {error}") from error
        self.model: Any = model.to(self.device).eval().requires_grad_(False)
        self.cache = SlotCache(rows, width)
        names = inspect.signature(type(model).forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"

    @property
    def vocab(self) -> int:
        """Size of the vocabulary."""
        return int(self.model.config.get_text_config().vocab_size)

    @property
    def positions(self) -> int | None:
        """Longest sequence that the model's configuration speaks of."""
        return getattr(self.model.config.get_text_config(), "max_position_embeddings", None)

    @torch.inference_mode()
    def forward(self, pieces: Sequence[Piece]) -> Tensor:
        """float32 logits [N, V] of all kept tokens, piece after piece."""
        plan = self._plan(pieces)
        token = PLAN.set(plan)
        try:
            output = self.model(
                input_ids=plan.ids[None],
                position_ids=plan.positions[None],
                use_cache=True,
                logits_to_keep=plan.keep,
                **{self._cache_name: self.cache},
            )
        finally:
            PLAN.reset(token)
        logits: Tensor = output.logits[0].float()
        return logits

    def _plan(self, pieces: Sequence[Piece]) -> Plan:
        sizes = np.array([len(p.ids) for p in pieces])
        starts = np.concatenate([[0], sizes.cumsum()[:-1]])
        rows = np.repeat([p.row for p in pieces], sizes)
        offsets = np.arange(sizes.sum()) - np.repeat(starts, sizes)
        positions = np.repeat([p.start for p in pieces], sizes) + offsets
        keep = np.flatnonzero(offsets >= np.repeat([p.keep for p in pieces], sizes))
        ids = np.concatenate([p.ids for p in pieces])
        groups = [self._group(pieces, starts, part) for part in _parts(sizes)]
        return Plan(
            ids=self._tensor(ids),
            rows=self._tensor(rows),
            positions=self._tensor(positions),
            groups=groups,
            keep=self._tensor(keep),
        )

    def _group(self, pieces: Sequence[Piece], starts: NDArray[np.int64], part: range) -> Group:
        """Pieces of `part` as one padded block; a slice of the cache where few rows are idle."""
        rows = np.array([pieces[i].row for i in part])
        first = np.array([pieces[i].start for i in part])
        sizes = np.array([len(pieces[i].ids) for i in part])
        low, high, longest = int(rows.min()), int(rows.max()) + 1, int(sizes.max())
        view: slice | None = slice(low, high) if (high - low) * 2 <= 3 * len(rows) else None
        place = rows - low if view else np.arange(len(rows))
        count = high - low if view else len(rows)
        take = np.full((count, longest), starts[part[0]])
        last = np.zeros((count, longest), dtype=np.int64)
        inside = np.arange(longest)
        take[place] = starts[list(part), None] + np.minimum(inside, sizes[:, None] - 1)
        last[place] = first[:, None] + np.minimum(inside, sizes[:, None] - 1)
        real = np.flatnonzero(inside < sizes[:, None])
        put = (place[:, None] * longest + inside).ravel()[real]
        return Group(
            view if view else self._tensor(rows),
            self._tensor(take.ravel()),
            self._tensor(put),
            self._tensor(last),
            int(last.max()) + 1,
        )

    def _tensor(self, values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64)).to(self.device)

    @torch.inference_mode()
    def load_weights(self, folder: Path) -> None:
        """Replace the weights by those of another folder of the same model, all or none.

        Raises:
            EngineError: unreadable files, or tensors of other names or shapes.
        """
        own = self.model.state_dict()
        found = _read_weights(folder)
        tied = {name for name in own.keys() - found.keys() if _shared(name, own)}
        wrong = [name for name in found if name not in own or found[name].shape != own[name].shape]
        if wrong or own.keys() - found.keys() - tied:
            missing = sorted(own.keys() - found.keys() - tied)
            raise EngineError(f"{folder} holds another model ({(wrong or missing)[0]})")
        for name, tensor in found.items():
            own[name].copy_(tensor)


def _parts(sizes: NDArray[np.int64]) -> list[range]:
    """Runs of neighbours whose padded lengths are alike (within a factor of two)."""
    classes = [int(size - 1).bit_length() for size in sizes]
    cuts = [i for i in range(1, len(classes)) if classes[i] != classes[i - 1]]
    bounds = [0, *cuts, len(classes)]
    return [range(a, b) for a, b in pairwise(bounds)]


def _read_weights(folder: Path) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    try:
        files = sorted(folder.glob("*.safetensors"))
        for file in files:
            with safe_open(file, framework="pt") as opened:
                found |= {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise EngineError(f"{folder} can't be read: {error}") from error
    if not found:
        raise EngineError(f"{folder} holds no safetensors")
    return found


def _shared(name: str, own: dict[str, Tensor]) -> bool:
    """Whether the tensor is another name of one that is stored (tied embeddings)."""
    return any(other != name and own[other].data_ptr() == own[name].data_ptr() for other in own)
