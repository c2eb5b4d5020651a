"""The model over the key-value cache: packed tokens in, logits out."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spader_slime.errors import EngineError
from spader_slime.local.engine.attention import NAME
from spader_slime.local.engine.batches import Batch, make_plan
from spader_slime.local.engine.cache import SlotCache
from spader_slime.local.engine.plans import PLAN
from spader_slime.local.engine.weights import load_model, read_state

_SHARE = 0.8  # of the free memory, for the cache at most
_GIB = 2**30


class Runner:
    """A causal language model from a Hugging Face folder.

    Attributes:
        rows, width: of the cache: sequences held at once, tokens of each; 1 x 8 until `reserve`.
        device: a CUDA device where there is one.
    """

    def __init__(self, folder: Path) -> None:
        """Raises `EngineError` where the folder can't be loaded or the model is of no use here."""
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model: Any = load_model(folder, self.device, NAME)
        names = inspect.signature(type(self.model).forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"
        self.rows, self.width = 1, 8
        self.cache = SlotCache(self.rows, self.width)
        self._try()

    @property
    def vocab(self) -> int:
        """Size of the vocabulary."""
        return int(self.model.config.get_text_config().vocab_size)

    @property
    def positions(self) -> int | None:
        """Longest sequence that the model's configuration speaks of."""
        return getattr(self.model.config.get_text_config(), "max_position_embeddings", None)

    def reserve(self, rows: int, width: int) -> None:
        """Make room for up to `rows` sequences of `width` tokens, for fewer if memory is short.

        Raises:
            EngineError: there is not even room for one.
        """
        each = self.cache.bytes_per_token() * width
        fitting = int(_free_bytes(self.device) * _SHARE) // each
        if not fitting:
            raise EngineError(
                f"one sequence of {width} tokens needs {each / _GIB:.1f} GiB of key-value cache, "
                "more than there is: give a smaller context length"
            )
        self.rows, self.width = min(rows, fitting), width
        self.cache.resize(self.rows, self.width)

    @torch.inference_mode()
    def forward(self, batch: Batch) -> Tensor:
        """float32 logits [N, V] of the N kept tokens."""
        plan = make_plan(batch, self.device)
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

    @torch.inference_mode()
    def load_weights(self, folder: Path) -> None:
        """Replace the weights by those of another folder of the same model: all or none.

        Raises:
            EngineError: unreadable files, or tensors of other names or shapes.
        """
        own = self.model.state_dict()
        for name, tensor in read_state(folder, own).items():
            own[name].copy_(tensor)

    def _try(self) -> None:
        """One token through the model: what can't be served fails now, not on a request."""
        one, zero = np.ones(1, np.int64), np.zeros(1, np.int64)
        try:
            self.forward(Batch(rows=zero, starts=zero, sizes=one, ids=zero, keep=zero))
        except (TypeError, AttributeError, KeyError, IndexError, RuntimeError) as error:
            kind = type(self.model).__name__
            raise EngineError(f"this engine can't run {kind}: {error}") from error
        if not self.cache.bytes_per_token():
            raise EngineError(f"{type(self.model).__name__} keeps no keys and values by position")


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
