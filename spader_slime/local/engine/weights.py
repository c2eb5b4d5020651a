"""Models and weights from Hugging Face folders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from spader_slime.errors import EngineError


def load_model(folder: Path, device: torch.device, attention: str) -> Any:
    """A causal language model for inference: float32 on CPU, else in the stored precision.

    Raises:
        EngineError: the folder can't be loaded, or lacks some of the weights.
    """
    dtype = torch.float32 if device.type == "cpu" else "auto"
    logging.disable_progress_bar()
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            attn_implementation=attention,
            local_files_only=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise EngineError(f"{folder} can't be loaded: {error}") from error
    model, notes = loaded
    if notes["missing_keys"]:
        raise EngineError(f"{folder} lacks the weights {sorted(notes['missing_keys'])[:3]}")
    return model.to(device).eval().requires_grad_(False)


def read_state(folder: Path, own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights in `folder` by the names of the state `own`, complete and of the same shapes.

    Files whose names differ from the model's (transformers fuses experts, for example) go through
    transformers itself, which takes longer.

    Raises:
        EngineError: unreadable files, or tensors of other names or shapes.
    """
    found = _stored(folder)
    if not found.keys() <= own.keys() or not _complete(found, own):
        found = load_model(folder, torch.device("cpu"), "sdpa").state_dict()
    wrong = [name for name in found if name not in own or found[name].shape != own[name].shape]
    if wrong or not _complete(found, own):
        raise EngineError(f"{folder} holds another model ({(wrong or ['tensors are missing'])[0]})")
    return found


def _stored(folder: Path) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    try:
        for file in sorted(folder.glob("*.safetensors")):
            with safe_open(file, framework="pt") as opened:
                found |= {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise EngineError(f"{folder} can't be read: {error}") from error
    if not found:
        raise EngineError(f"{folder} holds no safetensors")
    return found


def _complete(found: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> bool:
    """Whether every tensor is there, under one of its names at least (tied embeddings have two)."""
    there = {own[name].data_ptr() for name in found if name in own}
    return all(tensor.data_ptr() in there for tensor in own.values())
