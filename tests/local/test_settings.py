"""A run's file: overrides, references between keys, paths, checks across keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from spader_slime.errors import ConfigError
from spader_slime.local.settings import TrainConfig, load_config

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*/config*.yaml"))


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text("{}\n")
    return path


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_examples_can_be_read(path: Path) -> None:
    prompt = load_config(path).spader.agent.prompt_file
    assert prompt is None or Path(prompt).is_file()


def test_the_quickstart_is_an_example() -> None:
    assert ROOT / "examples/quickstart/config.yaml" in EXAMPLES


def test_each_seed_has_a_folder_of_its_own() -> None:
    path = ROOT / "examples/quickstart/config.yaml"
    folders = [load_config(path, [f"run.seed={seed}"]).run.dir for seed in range(3)]
    assert len(set(folders)) == 3


def test_an_empty_file_means_the_defaults(empty: Path) -> None:
    assert load_config(empty) == TrainConfig()


def test_overrides_come_last(empty: Path) -> None:
    empty.write_text("run: {seed: 1, iterations: 5}\n")
    config = load_config(empty, ["run.seed=2", "spader.reward={beta: 2.0}"])
    assert (config.run.seed, config.run.iterations, config.spader.reward.beta) == (2, 5, 2.0)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("seed", "key.path=value"),
        ("run.sed=1", "run.sed"),
        ("run.seed=-1", "run.seed"),
        ("train.lr=fast", "lr"),
        ("policy.kv_heads=3", "kv_heads"),
        ("rollout.max_context=100", "max_context"),
        ("train.minibatches=7", "minibatches"),
        ("train.ratio=step", "spader.loss.ratio"),
        ("run.dir=${run.nowhere}", "nowhere"),
    ],
)
def test_mistakes_are_named(empty: Path, override: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config(empty, [override])
