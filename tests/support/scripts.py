"""What scripted trajectories are made with, for tests of the cold start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformers import AutoTokenizer

from spader_slime.agent.budget import make_budget
from spader_slime.agent.protocol import Protocol, make_protocol
from spader_slime.agent.template import ChatBoundary
from spader_slime.config import build
from spader_slime.local.cold_start import Batch, cold_start_batches
from spader_slime.local.curriculum import Curriculum
from spader_slime.local.guide import Guide
from spader_slime.local.scripts import ScriptWriter
from spader_slime.local.settings import TrainConfig
from spader_slime.local.world.build import WorldFiles

QUICKSTART: dict[str, Any] = {
    "spader": {
        "agent": {
            "protocol": "spader_cited",
            "max_turns": 8,
            "max_turn_tokens": 96,
            "answer_reserve": 96,
            "max_observation_tokens": 96,
        },
        "search": {"top_k": 3, "initial_k": 3, "max_chars": 1000},
    },
    "rollout": {"max_response_tokens": 512, "max_context": 640},
}


def configured(**changes: dict[str, Any]) -> TrainConfig:
    """The quickstart's limits, with whole sections of the configuration replaced."""
    return build(TrainConfig, {**QUICKSTART, **changes}, "config")


def with_agent(**changes: Any) -> TrainConfig:
    """The quickstart's limits with other limits of the agent."""
    spader = QUICKSTART["spader"]
    return configured(spader={**spader, "agent": {**spader["agent"], **changes}})


@dataclass(frozen=True)
class Parts:
    """Everything that scripts of one configuration are made with."""

    config: TrainConfig
    files: WorldFiles
    tokenizer: Any
    protocol: Protocol
    boundary: ChatBoundary
    guide: Guide
    curriculum: Curriculum

    def batches(self, first: int = 0) -> Any:
        rest = (self.tokenizer, self.protocol, self.boundary, first)
        return cold_start_batches(self.config, self.files, *rest)

    def batch(self, step: int) -> Batch:
        return self.curriculum.batch(self.config.run.seed, step)

    def decode(self, ids: Any) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=False))


def make_parts(files: WorldFiles, config: TrainConfig) -> Parts:
    """Open the world `files` for scripts under `config`."""
    tokenizer = AutoTokenizer.from_pretrained(files.tokenizer)
    agent, rollout = config.spader.agent, config.rollout
    protocol, boundary = make_protocol(agent), ChatBoundary(tokenizer)
    guide = Guide(files, config.spader.search)
    budget = make_budget(agent, rollout.max_response_tokens, rollout.max_context)
    writer = ScriptWriter(protocol, boundary, budget, agent.max_turns)
    curriculum = Curriculum(config.cold_start, writer, guide, tokenizer)
    return Parts(config, files, tokenizer, protocol, boundary, guide, curriculum)
