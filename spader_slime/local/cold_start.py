"""The cold start: a short supervised stage on scripts, so that the format is known before
reinforcement learning. `cold_stage` runs it; this says what is learned and how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from spader_slime.agent.budget import make_budget
from spader_slime.agent.protocol import Protocol
from spader_slime.agent.template import ChatBoundary
from spader_slime.config import ranged
from spader_slime.errors import ConfigError
from spader_slime.local.curriculum import Curriculum
from spader_slime.local.guide import Guide
from spader_slime.local.scripts import ScriptWriter
from spader_slime.megatron.settings import LearnerSettings

if TYPE_CHECKING:
    from spader_slime.local.settings import TrainConfig
    from spader_slime.local.world.build import WorldFiles

Batch = dict[str, list[Any]]
LEAST_LR = 0.03  # of the peak, at the end of the decay


@dataclass
class ColdStartSettings:
    """How the policy learns the format. Shares are in [0, 1].

    The steps begin with raw copying (`copy_share` of them), go on with scripts of one or two
    searches (`short_share`), and then have 1, 2, 3, ... searches as often as `search_weights`
    says, or 5 to 7 (`tail_share`).
    """

    checkpoint: str | None = None  # Hugging Face folder of another run's cold start: no steps here
    steps: int = ranged(2000, 0)  # optimizer steps; 0: none at all
    checkpoint_every: int = ranged(500, 1)  # steps
    batch_tokens: int = ranged(700, 1)  # tokens per step, prompts and observations included
    lr: float = ranged(4e-3, 0.0)
    beta2: float = ranged(0.98, 0.0, 1.0)
    grad_clip: float = ranged(1.0, 0.0)
    warmup_steps: int = ranged(50, 0)
    decay_share: float = ranged(0.5, 0.0, 1.0)  # of the steps, at their end
    copy_share: float = ranged(0.2, 0.0, 1.0)  # of the steps, at their beginning
    copy_later_share: float = ranged(0.1, 0.0, 1.0)  # of the steps after that
    short_share: float = ranged(0.1, 0.0, 1.0)  # of the steps, after the copying
    search_weights: list[float] = field(default_factory=lambda: [0.5, 0.25, 0.15, 0.1])
    tail_share: float = ranged(0.2, 0.0, 1.0)
    permute_share: float = ranged(1.0, 0.0, 1.0)  # of the batches; their names are exchanged


def cold_start_learner(settings: ColdStartSettings, base: LearnerSettings) -> LearnerSettings:
    """The trainer's settings for the cold start: its own optimizer, the process grid of `base`."""
    decay = round(settings.steps * settings.decay_share)
    return replace(
        base,
        lr=settings.lr,
        beta2=settings.beta2,
        embedding_lr_scale=1.0,
        grad_clip=settings.grad_clip,
        warmup_steps=min(settings.warmup_steps, settings.steps // 2),
        lr_decay="linear" if decay else "constant",
        decay_start=settings.steps - decay,
        decay_steps=settings.steps,
        min_lr=LEAST_LR * settings.lr,
        weight_decay=0.0,
        kl_coef=0.0,
    )


def cold_start_batches(
    config: TrainConfig,
    files: WorldFiles,
    tokenizer: Any,
    protocol: Protocol,
    boundary: ChatBoundary,
    first: int = 0,
) -> Iterator[Batch]:
    """Batches for `Learner.supervised`, without end, from step `first` on.

    Batch i depends on the world, the settings, `config.run.seed` and i only: an interrupted run
    goes on with the batches it would have seen.

    Raises:
        ConfigError: `search_weights` that can't be drawn from, a protocol without scripts, or
            limits too small for a first search.
    """
    check_weights(config.cold_start.search_weights)
    agent, rollout = config.spader.agent, config.rollout
    budget = make_budget(agent, rollout.max_response_tokens, rollout.max_context)
    writer = ScriptWriter(protocol, boundary, budget, agent.max_turns)
    guide = Guide(files, config.spader.search)
    curriculum = Curriculum(config.cold_start, writer, guide, tokenizer)
    return (curriculum.batch(config.run.seed, step) for step in count(first))


def check_weights(weights: list[float]) -> None:
    """Refuse weights that no number of searches can be drawn with."""
    if not weights or min(weights) < 0 or sum(weights) <= 0:
        raise ConfigError("cold_start.search_weights", weights, "numbers >= 0 with a positive sum")
