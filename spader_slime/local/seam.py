"""Shapes that cross between the embedded host and the hooks, with slime's names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from spader_slime.errors import ConfigError
from spader_slime.local.sample import Sample


@dataclass
class DynamicFilterOutput:
    """Verdict of a dynamic sampling filter on one group."""

    keep: bool
    reason: str | None = None
    keep_when_insufficient: bool = False


@dataclass
class RolloutFnTrainOutput:
    """Groups to train on, and metrics to log beside."""

    samples: list[list[Sample]]
    metrics: dict[str, Any] | None = None


@dataclass
class RolloutFnEvalOutput:
    """Per dataset `{"rewards", "truncated", "samples"}`, and metrics to log beside."""

    data: dict[str, dict[str, list[Any]]]
    metrics: dict[str, Any] | None = None


@dataclass(frozen=True)
class EvalDataset:
    """One evaluation set, with the fields of slime's dataset configuration that are used here."""

    name: str
    path: str
    n_samples_per_eval_prompt: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    max_response_len: int | None = None
    input_key: str = "prompt"
    label_key: str = "label"
    metadata_key: str = "metadata"
    custom_rm_path: str | None = None
    custom_generate_function_path: str | None = None
    metadata_overrides: dict[str, Any] = field(default_factory=dict)


def load_function(path: str) -> Callable[..., Any]:
    """The object at the dotted path `package.module.attribute`.

    Raises:
        ConfigError: there is nothing at that path.
    """
    module, _, name = str(path).rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError("hook path", path, f"package.module.function ({error})") from error
