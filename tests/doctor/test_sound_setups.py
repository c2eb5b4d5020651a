"""On runs that are in order the doctor finds nothing to say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml
from doctor.judging import problems, said
from doctor.setups import SHAPE, Setup

from spader_slime.agent.protocol import make_protocol
from spader_slime.config import AgentConfig
from spader_slime.retrieval.index import build_index
from spader_slime.retrieval.launch import SearchProcess
from spader_slime.retrieval.passages import Passage

CITIES = ["Oslo", "Bergen", "Lima", "Cusco", "Arequipa", "Trondheim", "Drammen", "Tacna"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchProcess]:
    """A real search service in a process of its own."""
    index = tmp_path_factory.mktemp("index") / "index"
    build_index([Passage(c, f"{c} is one of the cities of Norway or Peru.") for c in CITIES], index)
    with SearchProcess(index) as process:
        yield process


def test_one_node_with_engines_on_the_same_gpus(qwen: Setup, service: SearchProcess) -> None:
    """Qwen3's template, parquet, the service as a process."""
    sound = qwen.copy()
    sound.urls, sound.suffix = [service.url], "parquet"
    sound.flags["prompt-data"] = ["{folder}/train.parquet"]
    sound.flags["eval-prompt-data"] = ["cities", "{folder}/test.parquet"]
    found = problems(sound)
    assert found == [], said(found)


def test_fully_async_with_engines_of_their_own(qwen: Setup) -> None:
    """Llama's template, prompts as chats, evaluation sets in a file, train_async.py."""
    sound = qwen.copy()
    sound.style = "llama31"
    sound.spader = {**sound.spader, "rollout": "fully_async"}
    protocol = make_protocol(AgentConfig())
    for row in [*sound.train, *sound.test]:
        row["prompt"] = protocol.messages(row["prompt"])
    for name in ("colocate", "eval-prompt-data"):
        del sound.flags[name]
    sound.flags |= {
        "actor-num-gpus-per-node": ["4"],
        "rollout-num-gpus": ["4"],
        "eval-config": ["{folder}/eval.yaml"],
    }
    datasets = [{"name": "cities", "path": str(sound.folder / "test.jsonl")}]
    (sound.folder / "eval.yaml").write_text(yaml.safe_dump({"eval": {"datasets": datasets}}))
    found = problems(sound)
    assert found == [], said(found)


def test_experts_with_a_loss_by_decision_step(qwen: Setup, service: SearchProcess) -> None:
    """An MoE under Search-R1's protocol, its other address, and step options."""
    sound = qwen.copy()
    sound.urls = [service.url.replace("/retrieve", "/search_r1/retrieve")]
    experts = {"model_type": "qwen3_moe", "num_experts": 8, "moe_intermediate_size": 32}
    sound.shape = {**SHAPE, **experts}
    sound.spader["agent"]["protocol"] = "search_r1"
    sound.spader["loss"] = {"ratio": "step", "aggregate": "step"}
    sound.flags |= {
        "num-experts": ["8"],
        "moe-ffn-hidden-size": ["32"],
        "expert-model-parallel-size": ["4"],
        "expert-tensor-parallel-size": ["1"],
        "use-rollout-routing-replay": [],
        "loss-type": ["custom_loss"],
        "custom-loss-function-path": ["spader_slime.hooks.policy_loss"],
    }
    found = problems(sound)
    assert found == [], said(found)
