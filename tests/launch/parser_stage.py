"""What slime's parser needs on a machine without GPU, SGLang and slime's model folders."""

from __future__ import annotations

import os
import sys
import types
from argparse import ArgumentParser
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace

import torch
from contracts import standins
from contracts.real_slime import on_cpu

# Imports triton, which comes with torch for GPUs only; no parser calls it.
KERNELS = "megatron.core.transformer.custom_layers.batch_invariant_kernels"


class ServerArgs:
    """The flags of SGLang's server that the launch scripts use (SGLang 0.5.15)."""

    @staticmethod
    def add_cli_args(parser: ArgumentParser) -> None:
        """Declare them, and the sizes that slime looks at afterwards."""
        parser.add_argument("--mem-fraction-static", type=float)
        for name in ("tp", "pp", "dp", "ep", "moe-dp"):
            parser.add_argument(f"--{name}-size", type=int, default=1)


def megatron_source() -> str | None:
    """A Megatron-LM checkout, "" where megatron.training is installed, None without either."""
    if os.environ.get("MEGATRON_SRC"):
        return os.environ["MEGATRON_SRC"]
    return "" if find_spec("megatron") and find_spec("megatron.training") else None


def set_the_stage(checkout: str) -> None:
    """Make slime and Megatron-LM importable, with one pretended GPU."""
    source = megatron_source()
    sys.path[:0] = [checkout, *([source] if source else [])]
    if not find_spec("triton"):
        sys.modules[KERNELS] = standins.Module(KERNELS)
    import_module("megatron.training.arguments")  # before wandb seems to be there
    if not find_spec("sglang"):
        _stand_in_for_sglang()
    standins.install()
    on_cpu()
    torch.cuda.is_available = lambda: True  # type: ignore[assignment]
    torch.cuda.device_count = lambda: 8  # type: ignore[assignment]
    torch.cuda.get_device_capability = lambda *device: (9, 0)  # type: ignore[assignment]
    torch.cuda.get_device_properties = lambda *device: SimpleNamespace(  # type: ignore[assignment]
        major=9, minor=0, total_memory=80 * 2**30
    )


def _stand_in_for_sglang() -> None:
    module = types.ModuleType("sglang.srt.server_args")
    module.ServerArgs = ServerArgs  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
