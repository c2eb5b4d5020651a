"""The configuration's names and defaults are fixed; mistakes name field, value and choices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from spader_slime.config import SpaderConfig, load_spader
from spader_slime.errors import ConfigError

DOCUMENTED = """
spader:
  estimator: spa
  gamma: 0.9
  reward: {alpha: 1.0, beta: 4.0, decay: 1.0, cost: 0.01, cost_free_steps: 100,
    cost_rampup_steps: 100, final_weight: 1.0, invalid_format: -1.0}
  agent: {protocol: spader, max_turns: 16, max_turn_tokens: 2048, answer_reserve: 1024,
    max_observation_tokens: 3072, on_no_action: end, prompt_file: null}
  search: {urls: ["http://127.0.0.1:8000/retrieve"], top_k: 5, initial_k: 50, max_chars: 10000,
    timeout_s: 90, retries: 3, concurrency: 256}
  loss: {ratio: token, aggregate: token}
  failures: {max_share: 0.2}
"""


def test_the_documented_file_holds_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "spader.yaml"
    path.write_text(DOCUMENTED)
    assert load_spader(path) == SpaderConfig()


def keys(values: Any, prefix: str = "") -> set[str]:
    if not isinstance(values, dict):
        return {prefix}
    return {key for name, value in values.items() for key in keys(value, f"{prefix}.{name}")}


def test_every_documented_key_is_a_key_of_its_own() -> None:
    documented = keys(OmegaConf.to_container(OmegaConf.create(DOCUMENTED)))
    own = keys({"spader": OmegaConf.to_container(OmegaConf.structured(SpaderConfig()))})
    assert documented <= own


@pytest.mark.parametrize(
    ("values", "field", "value", "allowed"),
    [
        ({"estimater": "spa"}, "spader.estimater", "spa", "estimator"),
        ({"estimator": "ppo"}, "spader.estimator", "ppo", "spa, grpo"),
        ({"gamma": 1.5}, "spader.gamma", 1.5, "[0.0, 1.0]"),
        ({"gamma": float("nan")}, "spader.gamma", None, "[0.0, 1.0]"),
        ({"gamma": "high"}, "spader.gamma", "high", "float"),
        ({"reward": 3}, "spader.reward", 3, "a mapping"),
        ({"reward": {"beta": -1}}, "spader.reward.beta", -1.0, "[0.0, inf]"),
        ({"agent": {"max_turns": 0}}, "spader.agent.max_turns", 0, "[1, inf]"),
        ({"search": {"urls": "x"}}, "spader.search.urls", "x", "list"),
        ({"failures": {"max_share": 2}}, "spader.failures.max_share", 2.0, "[0.0, 1.0]"),
    ],
)
def test_a_mistake_names_field_value_and_what_is_allowed(
    values: dict[str, Any], field: str, value: Any, allowed: str
) -> None:
    with pytest.raises(ConfigError) as found:
        load_spader(values)
    assert found.value.field == field
    assert value is None or found.value.value == value
    assert allowed.lower() in str(found.value).lower()


def test_no_configuration_means_the_defaults() -> None:
    assert load_spader(None) == load_spader({}) == SpaderConfig()


@pytest.mark.parametrize("text", ["- a\n- b\n", "spader: [", ""])
def test_files_that_are_no_mapping(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    if text:
        with pytest.raises(ConfigError, match=r"bad\.yaml"):
            load_spader(path)
    else:
        assert load_spader(path) == SpaderConfig()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.yaml"):
        load_spader(tmp_path / "gone.yaml")
