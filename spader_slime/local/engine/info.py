"""What the engine says about itself, in SGLang's words."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spader_slime.local.engine.prompts import Limits
from spader_slime.local.engine.scheduler import Scheduler


@dataclass(frozen=True)
class Served:
    """What is being served.

    Attributes:
        model: the folder. config: of the model, as transformers reads it.
        max_running: sequences sampled at once, at most.
    """

    model: Path
    limits: Limits
    max_running: int
    config: Any


def model_info(scheduler: Scheduler, served: Served) -> dict[str, Any]:
    """Reply of `/model_info`."""
    return {
        "model_path": str(served.model),
        "tokenizer_path": str(served.model),
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": scheduler.version,
        "has_image_understanding": False,
        "has_audio_understanding": False,
        "model_type": served.config.model_type,
        "architectures": list(served.config.architectures or []),
        "vocab_size": served.limits.vocab,
    }


def server_info(scheduler: Scheduler, served: Served) -> dict[str, Any]:
    """Reply of `/server_info`; one process is one engine with one rank."""
    sizes = dict.fromkeys(("tp_size", "pp_size", "dp_size", "ep_size", "nnodes", "num_gpus"), 1)
    return {
        "model_path": str(served.model),
        "served_model_name": str(served.model),
        "tokenizer_path": None if served.limits.tokenizer is None else str(served.model),
        **sizes,
        "disaggregation_mode": "null",
        "context_length": served.limits.context,
        "max_running_requests": served.max_running,
        "max_total_num_tokens": served.max_running * served.limits.context,
        "weight_version": scheduler.version,
        "status": "ready",
        "version": "spader_slime",
        "internal_states": [_load(scheduler)],
    }


def loads(scheduler: Scheduler) -> dict[str, Any]:
    """Reply of `/v1/loads`."""
    load = _load(scheduler)
    names = ("num_running_reqs", "num_waiting_reqs", "num_total_reqs")
    total = {name.replace("num_", "total_", 1): load[name] for name in names[:2]}
    total["total_reqs"] = load[names[2]]
    return {"timestamp": time.time(), "dp_rank_count": 1, "loads": [load], "aggregate": total}


def _load(scheduler: Scheduler) -> dict[str, Any]:
    running, waiting, cached = scheduler.loads
    return {
        "dp_rank": 0,
        "num_running_reqs": running,
        "num_waiting_reqs": waiting,
        "num_total_reqs": running + waiting,
        "num_used_tokens": cached,
    }
