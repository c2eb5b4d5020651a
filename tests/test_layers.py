"""What importing a layer brings along, seen in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

WALK = """
import importlib, pkgutil, sys
for name in {layers!r}:
    top = importlib.import_module(name)
    for found in pkgutil.walk_packages(getattr(top, "__path__", []), name + "."):
        importlib.import_module(found.name)
print(*sorted({{name.split(".")[0] for name in sys.modules}} & set({forbidden!r})))
print(*sorted(name for name in sys.modules if name.startswith("spader_slime.")))
"""

HOSTS = ("slime", "megatron", "ray", "sglang", "vllm", "transformer_engine")
NETWORK = ("aiohttp", "httpx", "requests", "uvicorn", "starlette", "fastapi")
MODELS = ("torch", "transformers", "tokenizers", "tantivy")


def imported(layers: tuple[str, ...], forbidden: tuple[str, ...]) -> tuple[list[str], set[str]]:
    """Forbidden packages, and parts of ours, that are loaded after importing all of `layers`."""
    code = WALK.format(layers=layers, forbidden=forbidden)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages, ours = done.stdout.split("\n")[:2]
    return packages.split(), {name.split(".")[1] for name in ours.split()}


METHOD = tuple(
    f"spader_slime.algorithms.{name}"
    for name in ("advantage", "answers", "credit", "entities", "reward", "spreading")
)
AGENT = tuple(
    f"spader_slime.agent.{name}"
    for name in ("budget", "chat", "loop", "policy", "protocol", "search", "template")
)  # a teacher's scores are tensors, nothing else is
GROUND = {"errors", "config", "episode"}


@pytest.mark.parametrize(
    ("layers", "forbidden", "below"),
    [
        (("spader_slime.errors", "spader_slime.episode"), HOSTS + NETWORK + MODELS, set()),
        (("spader_slime.config",), HOSTS + NETWORK + MODELS, {"errors"}),
        (METHOD, HOSTS + NETWORK + MODELS, GROUND),
        (("spader_slime.algorithms",), HOSTS + NETWORK + MODELS[1:], GROUND),  # slices are torch's
        (AGENT, HOSTS + NETWORK[1:] + MODELS[:2], GROUND | {"algorithms"}),
        (("spader_slime.agent",), HOSTS + NETWORK[1:] + MODELS[1:2], GROUND | {"algorithms"}),
    ],
    ids=["ground", "config", "method", "algorithms", "agent", "agent with teacher"],
)
def test_a_layer_needs_only_what_is_below_it(
    layers: tuple[str, ...], forbidden: tuple[str, ...], below: set[str]
) -> None:
    packages, ours = imported(layers, forbidden)
    assert packages == []
    assert ours <= below | {name.split(".")[1] for name in layers}


def test_the_check_can_fail() -> None:
    packages, ours = imported(("spader_slime.agent",), ("aiohttp",))
    assert packages == ["aiohttp"] and {"agent", "algorithms"} <= ours
