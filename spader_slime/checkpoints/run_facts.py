"""What a checkpoint and its run folder tell about how a model was trained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from spader_slime.checkpoints.pickles import Record, load_archive
from spader_slime.errors import CheckpointError

# Arguments of slime and Megatron that say what was learned and how fast.
_ARGUMENTS = (
    "advantage_estimator",
    "lr",
    "min_lr",
    "lr_decay_style",
    "weight_decay",
    "clip_grad",
    "rollout_batch_size",
    "n_samples_per_prompt",
    "global_batch_size",
    "num_rollout",
    "rollout_max_response_len",
    "rollout_temperature",
    "eps_clip",
    "eps_clip_high",
    "use_kl_loss",
    "kl_loss_coef",
    "entropy_coef",
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
)
_SECTIONS = ("spader", "train", "rollout", "cold_start", "world")  # of a run's config.yaml
_NOT_TOLD = ("urls", "path", "hf", "checkpoint", "prompt_file", "threads", "timeout_s", "retries")
METRICS = ("f1", "recall", "precision", "exact_match", "searches", "turns", "valid")


@dataclass(frozen=True)
class RunFacts:
    """For the model card; empty where nothing was found.

    Attributes:
        iteration: number of the checkpoint.
        estimator: "spa", "grpo" or slime's name.
        settings: by dotted name.
        before, after: per held-out split the metrics, before and after training.
        data: names of the data sets or files.
    """

    iteration: int | None = None
    estimator: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    after: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    data: tuple[str, ...] = ()


def gather(checkpoint: Path, run: Path | None) -> RunFacts:
    """Read the run folder (by default the one that the checkpoint lies in) and `common.pt`.

    Raises:
        CheckpointError: a file of them is damaged or hostile, or `run` is no folder.
    """
    if run is not None and not run.is_dir():
        raise CheckpointError(f"{run}: no such run folder")
    digits = checkpoint.name.removeprefix("iter_")
    iteration = int(digits) if digits.isdigit() else None
    arguments = read_arguments(checkpoint)
    folder = run or checkpoint.resolve().parent.parent
    config = _read(folder / "config.yaml")
    result = _read(folder / "result.json")
    settings = _settings(config, arguments)
    estimator = settings.get("spader.estimator") or arguments.get("advantage_estimator") or ""
    return RunFacts(
        iteration,
        str(estimator),
        settings,
        _splits(result.get("before")),
        _splits(result.get("after")),
        _data(config, arguments),
    )


def read_arguments(checkpoint: Path) -> dict[str, Any]:
    """The arguments of the training, as `common.pt` has them; empty if there is none.

    Raises:
        CheckpointError: the file is damaged or hostile.
    """
    path = checkpoint / "common.pt"
    if not path.exists():
        return {}
    common = load_archive(path)
    arguments = common.get("args") if isinstance(common, dict) else None
    return dict(vars(arguments)) if isinstance(arguments, Record) else {}


def _splits(metrics: Any) -> dict[str, dict[str, Any]]:
    found = metrics if isinstance(metrics, dict) else {}
    return {split: values for split, values in found.items() if isinstance(values, dict)}


def _read(path: Path) -> dict[str, Any]:
    """A YAML or JSON file's mapping; empty if there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: can't be read ({error})") from error
    try:
        values = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise CheckpointError(f"{path}: damaged ({error})") from error
    return values if isinstance(values, dict) else {}


def _settings(config: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for section in _SECTIONS:
        found |= _flat(config.get(section), section)
    found |= _flat(arguments.get("spader"), "spader")
    plain = {name: arguments.get(name) for name in _ARGUMENTS}
    return found | {n: v for n, v in plain.items() if isinstance(v, str | int | float)}


def _flat(value: Any, name: str) -> dict[str, Any]:
    if isinstance(value, dict):
        flat: dict[str, Any] = {}
        for key, inner in value.items():
            if key not in _NOT_TOLD:
                flat |= _flat(inner, f"{name}.{key}")
        return flat
    return {name: value} if isinstance(value, str | int | float) else {}


def _data(config: dict[str, Any], arguments: dict[str, Any]) -> tuple[str, ...]:
    if prompts := arguments.get("prompt_data"):
        named = prompts if isinstance(prompts, list) else [prompts]
        return tuple(Path(str(name)).name for name in named)
    world = config.get("world")
    if isinstance(world, dict) and world.get("size") and not world.get("path"):
        return (f"the embedded world of spader_slime ({world['size']})",)
    return ()
