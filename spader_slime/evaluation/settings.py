"""How questions are asked, and what of it may not change while a folder is filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spader_slime.agent.protocol import make_protocol
from spader_slime.config import SpaderConfig, build, dotted, load_spader, ranged
from spader_slime.errors import ConfigError
from spader_slime.evaluation.questions import DataSet
from spader_slime.local.state import sampling_seed

if TYPE_CHECKING:
    from spader_slime.local.settings import TrainConfig


@dataclass
class AskSettings:
    """Sampling and limits of a trajectory."""

    samples: int = ranged(1, 1)  # trajectories per question
    temperature: float = ranged(0.0, 0.0)  # 0: the likeliest token
    top_p: float = ranged(1.0, 0.0, 1.0)
    top_k: int = ranged(-1, -1)  # -1: all tokens
    max_tokens: int = ranged(8192, 1)  # response tokens of a trajectory, observations included
    max_context: int | None = ranged(None, 8)  # the engine's context length
    seed: int = ranged(0, 0)

    def sampling_params(self, index: int) -> dict[str, Any]:
        """SGLang's parameters for trajectory `index` of a data set, with a seed of its own."""
        params = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "max_new_tokens": self.max_tokens,
        }
        if self.temperature > 0:
            params["sampling_seed"] = sampling_seed(self.seed, index)
        return params


@dataclass(frozen=True)
class Plan:
    """Everything that decides what is asked and how.

    Attributes:
        spader: agent and search settings, as in training.
        template: arguments of the chat template.
        data: what is asked.
    """

    ask: AskSettings
    spader: SpaderConfig
    data: Sequence[DataSet]
    template: Mapping[str, Any] = field(default_factory=dict)

    def identity(self, policy: Mapping[str, Any]) -> dict[str, Any]:
        """What must stay the same for answers to stand in one table, JSON-ready.

        Args:
            policy: what is known of the model (`Endpoint.identity`).
        """
        agent, search = asdict(self.spader.agent), asdict(self.spader.search)
        del agent["prompt_file"]  # its words count, wherever they lie
        return {
            "policy": dict(policy),
            "ask": asdict(self.ask),
            "agent": agent,
            "prompt": make_protocol(self.spader.agent).messages("{question}"),
            "template": dict(self.template),
            "search": {name: search[name] for name in ("top_k", "initial_k", "max_chars")},
            "data": {data.name: data.describe() for data in self.data},
        }


def ask_settings(chosen: Mapping[str, Any], defaults: Mapping[str, Any]) -> AskSettings:
    """Options of the command line (None: not given) over `defaults`.

    Raises:
        ConfigError: a value out of range.
    """
    given = {name: value for name, value in chosen.items() if value is not None}
    return build(AskSettings, {**defaults, **given}, "evaluate")


def agent_settings(path: Path | None, urls: Sequence[str]) -> SpaderConfig:
    """The key `spader:` of a YAML file (a run's own has it too), with these search addresses.

    Raises:
        ConfigError: an unreadable file, an unknown key or a bad value.
    """
    config = load_spader(path)
    prompt = config.agent.prompt_file
    if path is not None and prompt and not Path(prompt).is_absolute():
        config.agent.prompt_file = str((path.parent / prompt).resolve())
    config.search.urls = list(urls) or config.search.urls
    return config


def run_defaults(run: TrainConfig) -> dict[str, Any]:
    """What a single-machine run's own evaluation uses."""
    return {
        "samples": run.evaluation.samples,
        "temperature": run.evaluation.temperature,
        "max_tokens": run.rollout.max_response_tokens,
        "max_context": run.rollout.max_context,
        "seed": run.run.seed,
    }


def check_same(before: Mapping[str, Any], now: Mapping[str, Any], where: Path) -> None:
    """That answers asked under `now` may join those asked under `before`.

    Data sets may be added; one of the same name must be the same file, byte for byte.

    Raises:
        ConfigError: names the first setting that differs, and both values.
    """
    old, new = (dotted(_comparable(v, before.get("data", {}))) for v in (before, now))
    for key in sorted(old.keys() | new.keys()):
        if key in old and key not in new and key.startswith("data."):
            continue  # not asked this time
        if old.get(key) != new.get(key):
            allowed = f"{old.get(key)!r} as in {where}, or another --out"
            raise ConfigError(key, new.get(key), allowed)


def _comparable(values: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Without data sets that only one of the two has, and of the others only the content."""
    data = {n: {"sha256": d["sha256"]} for n, d in values["data"].items() if n in known}
    return {**values, "data": data}
