"""The one configuration of the method: the YAML key `spader:`, read once at the edge."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from spader_slime.errors import ConfigError

T = TypeVar("T")


def one_of(default: Any, *allowed: Any) -> Any:
    """A field restricted to the listed values."""
    return field(default=default, metadata={"one_of": allowed})


def ranged(default: Any, low: float = -math.inf, high: float = math.inf) -> Any:
    """A number within [low, high]."""
    return field(default=default, metadata={"range": (low, high)})


@dataclass
class RewardConfig:
    """Diversity-aware exploration reward (method, section 2)."""

    alpha: float = ranged(1.0, 0.0)  # utility of any newly shown gold entity
    beta: float = ranged(4.0, 0.0)  # novelty premium
    decay: float = ranged(1.0, 0.0)  # lambda: how fast the premium falls with N(e)
    cost: float = ranged(0.01, 0.0)  # c(step) per call once ramped up
    cost_free_steps: int = ranged(100, 0)  # training steps without cost
    cost_rampup_steps: int = ranged(100, 0)  # training steps of linear ramp
    final_weight: float = ranged(1.0, 0.0)  # weight of F1 in the answer step
    invalid_format: float = ranged(-1.0, -math.inf, 0.0)  # reward of an invalid last step


@dataclass
class AgentConfig:
    """Limits and protocol of the agent loop."""

    protocol: str = one_of("spader", "spader", "spader_cited", "search_r1")  # how calls are written
    max_turns: int = ranged(16, 1)  # assistant turns
    max_turn_tokens: int = ranged(2048, 1)  # new tokens per assistant turn
    answer_reserve: int = ranged(1024, 0)  # tokens always kept for the answer
    max_observation_tokens: int = ranged(3072, 1)  # tokens per observation
    on_no_action: str = one_of("end", "end", "retry")  # a turn with neither call nor answer
    prompt_file: str | None = None  # replaces the built-in prompt


@dataclass
class SearchConfig:
    """The search service as the client sees it."""

    urls: list[str] = field(default_factory=lambda: ["http://127.0.0.1:8000/retrieve"])
    top_k: int = ranged(5, 1)  # documents per query
    initial_k: int = ranged(50, 1)  # candidates before reranking
    max_chars: int = ranged(10000, 1)  # characters shared by all results of one call
    timeout_s: float = ranged(90.0, 0.001)  # per attempt
    retries: int = ranged(3, 0)  # further attempts
    concurrency: int = ranged(256, 1)  # calls in flight per process


@dataclass
class LossConfig:
    """Step options of the policy loss."""

    ratio: str = one_of("token", "token", "step")  # step: one importance ratio per decision step
    aggregate: str = one_of("token", "token", "step")  # step: every decision step weighs the same


@dataclass
class DistillationConfig:
    """On-policy distillation from a teacher (EOPD; method, section 3). Off without `urls`."""

    urls: list[str] = field(default_factory=list)  # SGLang servers of the teacher
    top_k: int = ranged(16, 1, 1024)  # of the teacher's most probable tokens, per token
    tail: str = one_of("drop", "drop", "keep")  # all other tokens: left out, or one more bucket
    entropy_threshold: float | None = ranged(None, 0.0)  # nats; forward KL where the teacher's is
    entropy_quantile: float | None = ranged(None, 0.0, 1.0)  # above; or above this one of the batch
    reverse_kl_coef: float = ranged(1.0, 0.0)  # of student minus teacher log-prob
    forward_kl_coef: float = ranged(1.0, 0.0)  # of the gated forward KL in the loss
    reverse: str = one_of("hook", "hook", "opd")  # who subtracts: our advantage, or --use-opd
    task_reward: bool = True  # False: distillation alone, without SPA or GRPO
    timeout_s: float = ranged(300.0, 0.001)  # per attempt
    retries: int = ranged(2, 0)  # further attempts
    concurrency: int = ranged(64, 1)  # trajectories being scored, per process
    max_lost_share: float = ranged(0.2, 0.0, 1.0)  # of a rollout's; more ends the run

    @property
    def active(self) -> bool:
        """Whether there is a teacher."""
        return bool(self.urls)

    @property
    def quantile(self) -> float | None:
        """The quantile that gates; None where the threshold does. Without either: 0.8."""
        if self.entropy_threshold is not None:
            return None
        return 0.8 if self.entropy_quantile is None else self.entropy_quantile

    def check(self) -> None:
        """Raise ConfigError where two fields contradict each other."""
        if self.entropy_threshold is not None and self.entropy_quantile is not None:
            field_name = "spader.distillation.entropy_quantile"
            raise ConfigError(field_name, self.entropy_quantile, "nothing with entropy_threshold")


@dataclass
class FailureConfig:
    """When lost episodes end the run."""

    max_share: float = ranged(0.2, 0.0, 1.0)  # of a rollout's episodes; more ends the run


@dataclass
class SpaderConfig:
    """Everything under `spader:`."""

    estimator: str = one_of("spa", "spa", "grpo")  # advantage by decision step, or by trajectory
    gamma: float = ranged(0.9, 0.0, 1.0)  # discount per decision step; spa only
    rollout: str = one_of("sync", "sync", "fully_async")  # slime's loop to delegate to
    reward: RewardConfig = field(default_factory=RewardConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    distillation: DistillationConfig = field(default_factory=DistillationConfig)
    failures: FailureConfig = field(default_factory=FailureConfig)


def load_spader(source: Mapping[str, Any] | str | Path | None) -> SpaderConfig:
    """Read the mapping under `spader:` (or a YAML file that has that key).

    Raises:
        ConfigError: unknown key, wrong type, value out of range, unreadable file.
    """
    if isinstance(source, str | Path):
        source = read_yaml(source).get("spader")
    return build(SpaderConfig, source or {}, "spader")


def read_yaml(path: str | Path, resolve: bool = True) -> dict[str, Any]:
    """A YAML file as plain containers; `resolve` fills in `${other.key}`.

    Raises:
        ConfigError: the file is missing or is not a YAML mapping.
    """
    try:
        loaded = OmegaConf.to_container(OmegaConf.load(path), resolve=resolve)
    except (OSError, OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
        raise ConfigError("config file", str(path), f"a readable YAML file ({error})") from error
    if not isinstance(loaded, dict):
        raise ConfigError("config file", str(path), "a YAML mapping at the top level")
    return {str(k): v for k, v in loaded.items()}


def build(schema: type[T], values: Mapping[str, Any], where: str) -> T:
    """Merge `values` into the dataclass `schema`, checking keys, types and ranges.

    Raises:
        ConfigError: names the dotted field, the value, and what is allowed.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(where, values, "a mapping")
    base: Any = schema()
    _check_keys(base, values, where)
    try:
        merged = OmegaConf.merge(OmegaConf.structured(base), OmegaConf.create(dict(values)))
        result: Any = OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        name = f"{where}.{error.full_key}" if getattr(error, "full_key", None) else where
        raise ConfigError(name, _at(values, error), str(error).splitlines()[0]) from error
    _check_values(result, where)
    return result


def _at(values: Mapping[str, Any], error: OmegaConfBaseException) -> Any:
    return OmegaConf.select(OmegaConf.create(dict(values)), getattr(error, "full_key", "") or "")


def _check_keys(node: Any, values: Mapping[str, Any], where: str) -> None:
    known = {f.name: getattr(node, f.name) for f in fields(node)}
    for key, value in values.items():
        if key not in known:
            raise ConfigError(f"{where}.{key}", value, "one of " + ", ".join(sorted(known)))
        if is_dataclass(known[key]):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{where}.{key}", value, "a mapping")
            _check_keys(known[key], value, f"{where}.{key}")


def _check_values(node: Any, where: str) -> None:
    for item in fields(node):
        value, name = getattr(node, item.name), f"{where}.{item.name}"
        if is_dataclass(value):
            _check_values(value, name)
        if isinstance(value, DistillationConfig):
            value.check()
        if "one_of" in item.metadata and value not in item.metadata["one_of"]:
            raise ConfigError(name, value, "one of " + ", ".join(map(str, item.metadata["one_of"])))
        if "range" in item.metadata and value is not None:
            low, high = item.metadata["range"]
            if not low <= value <= high:  # also catches NaN
                raise ConfigError(name, value, f"a number in [{low}, {high}]")


def dotted(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by the names that messages give them: `{"a": {"b": 1}}` -> `{"a.b": 1}`."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        found |= dotted(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found
