"""Cluster runs on paper: model, data and flags of a small size, written to a folder."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from support.templates import chat_tokenizer

HOOKS = {
    "rollout-function-path": ["spader_slime.hooks.generate_rollout"],
    "custom-generate-function-path": ["spader_slime.hooks.generate"],
    "custom-rm-path": ["spader_slime.hooks.reward"],
    "group-rm": [],
    "custom-reward-post-process-path": ["spader_slime.hooks.post_process_rewards"],
    "custom-advantage-function-path": ["spader_slime.hooks.compute_advantages"],
}
SHAPE = {
    "model_type": "qwen3",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": 320,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000,
    "tie_word_embeddings": False,
}


def rows(count: int, name: str) -> list[dict[str, Any]]:
    """Questions with gold answers, as slime rows."""
    return [
        {"prompt": f"Which cities of {name} {n}?", "label": [["Oslo", "Kristiania"], ["Bergen"]]}
        for n in range(count)
    ]


@dataclass
class Setup:
    """Everything that a test may spoil before it is written.

    Attributes:
        folder: where it is written to.
        urls: search addresses.
        flags: slime's flags by name, in order.
        spader: the YAML under `spader:`.
        shape: config.json of the model; flags describe the same shape.
        style: chat template of the tokenizer; None: a tokenizer without one.
        train, test: rows of the two data files.
        gpus: what nvidia-smi shows.
        suffix: kind of the data files.
    """

    folder: Path
    urls: list[str]
    flags: dict[str, list[str]]
    spader: dict[str, Any] = field(default_factory=dict)
    shape: dict[str, Any] = field(default_factory=lambda: dict(SHAPE))
    style: str | None = "qwen3"
    train: list[dict[str, Any]] = field(default_factory=lambda: rows(40, "Norway"))
    test: list[dict[str, Any]] = field(default_factory=lambda: rows(8, "Peru"))
    gpus: int = 8
    suffix: str = "jsonl"

    def copy(self) -> Setup:
        """A copy to spoil."""
        return copy.deepcopy(self)

    def write(self) -> tuple[Path, list[str]]:
        """(configuration file, slime's command line) after everything is on disk."""
        model = self.folder / "model"
        tokenizer = chat_tokenizer(self.style or "qwen3")
        (model / "chat_template.jinja").unlink(missing_ok=True)
        tokenizer.chat_template = tokenizer.chat_template if self.style else None
        tokenizer.save_pretrained(model)
        (model / "config.json").write_text(json.dumps(self.shape))
        (self.folder / "ref").mkdir(exist_ok=True)
        (self.folder / "ref" / "latest_checkpointed_iteration.txt").write_text("release")
        for name, listed in (("train", self.train), ("test", self.test)):
            write_rows(self.folder / f"{name}.{self.suffix}", listed)
        stub = self.folder / "bin" / "nvidia-smi"
        stub.parent.mkdir(exist_ok=True)
        lines = "".join(f"GPU {n}: NVIDIA H200 (UUID: {n})\\n" for n in range(self.gpus))
        stub.write_text(f"#!/bin/sh\nprintf '{lines}'\n")
        stub.chmod(0o755)
        spader = {**self.spader, "search": {"urls": self.urls, **self.spader.get("search", {})}}
        config = self.folder / "spader.yaml"
        config.write_text(yaml.safe_dump({"spader": spader}))
        return config, self.command_line()

    def command_line(self) -> list[str]:
        """The flags in order; `{folder}` stands for the setup's folder."""
        pairs = ((f"--{name}", values) for name, values in self.flags.items())
        words = [word for name, values in pairs for word in (name, *values)]
        return [word.replace("{folder}", str(self.folder)) for word in words]


def write_rows(path: Path, listed: list[dict[str, Any]]) -> None:
    """Rows as JSON lines or parquet."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in listed))
        return
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(listed), path)


def model_flags(shape: dict[str, Any]) -> dict[str, list[str]]:
    """Megatron's flags for a dense model of this shape."""
    names = {
        "num-layers": "num_hidden_layers",
        "hidden-size": "hidden_size",
        "ffn-hidden-size": "intermediate_size",
        "num-attention-heads": "num_attention_heads",
        "num-query-groups": "num_key_value_heads",
        "kv-channels": "head_dim",
        "vocab-size": "vocab_size",
        "rotary-base": "rope_theta",
        "norm-epsilon": "rms_norm_eps",
    }
    flags = {flag: [str(shape[name])] for flag, name in names.items() if name in shape}
    return {**flags, "group-query-attention": [], "untie-embeddings-and-output-weights": []}


def common_flags(suffix: str) -> dict[str, list[str]]:
    """Flags of any of these runs."""
    return {
        **HOOKS,
        "custom-config-path": ["{folder}/spader.yaml"],
        "hf-checkpoint": ["{folder}/model"],
        "ref-load": ["{folder}/ref"],
        "load": ["{folder}/runs/checkpoints"],
        "save": ["{folder}/runs/checkpoints"],
        "save-interval": ["20"],
        "prompt-data": [f"{{folder}}/train.{suffix}"],
        "input-key": ["prompt"],
        "label-key": ["label"],
        "num-rollout": ["100"],
        "rollout-batch-size": ["16"],
        "n-samples-per-prompt": ["8"],
        "global-batch-size": ["64"],
        "rollout-max-response-len": ["16384"],
        "rollout-max-context-len": ["32768"],
        "rollout-temperature": ["1"],
        "use-dynamic-batch-size": [],
        "max-tokens-per-gpu": ["20480"],
        "use-kl-loss": [],
        "kl-loss-coef": ["0.001"],
        "router-policy": ["consistent_hashing"],
    }
