"""Settings of the trainer: loss, optimizer, batching and process grid."""

from __future__ import annotations

from dataclasses import dataclass

from spader_slime.config import one_of, ranged
from spader_slime.errors import ConfigError


@dataclass
class LearnerSettings:
    """Everything a `Learner` needs besides the model folder. Plain values, so OmegaConf reads it.

    Probabilities and log-probabilities are natural logarithms; token counts include padding.
    """

    # policy loss
    clip_low: float = ranged(0.2, 0.0, 1.0)  # ratio is clipped to [1 - low, 1 + high]
    clip_high: float = ranged(0.28, 0.0)
    dual_clip: float | None = ranged(None, 1.0)  # bound on the loss of a negative advantage
    kl_coef: float = ranged(0.0, 0.0)  # k3 KL to the frozen reference; 0: none is kept
    entropy_coef: float = ranged(0.0, 0.0)  # entropy bonus
    temperature: float = ranged(1.0, 1e-6)  # rollout temperature; divides the logits
    old_log_probs: str = one_of("rollout", "rollout", "train")  # who scored the old policy
    ratio: str = one_of("token", "token", "step")  # of a run: spader.loss.ratio
    aggregate: str = one_of("token", "token", "step")  # of a run: spader.loss.aggregate
    forward_kl_coef: float = ranged(0.0, 0.0)  # of a run: spader.distillation.forward_kl_coef
    tail: str = one_of("drop", "drop", "keep")  # of a run: spader.distillation.tail

    # optimizer
    lr: float = ranged(1e-3, 0.0)
    embedding_lr_scale: float = ranged(1.0, 0.0)  # of input and output embeddings, times lr
    warmup_steps: int = ranged(0, 0)  # optimizer steps of linear warm-up
    lr_decay: str = one_of("constant", "constant", "linear", "cosine")
    decay_start: int = ranged(0, 0)  # optimizer step at which the decay begins
    decay_steps: int = ranged(0, 0)  # optimizer step at which min_lr is reached
    min_lr: float = ranged(0.0, 0.0)
    beta1: float = ranged(0.9, 0.0, 1.0)
    beta2: float = ranged(0.98, 0.0, 1.0)
    eps: float = ranged(1e-8, 0.0)
    weight_decay: float = ranged(0.0, 0.0)  # decoupled; matrices only
    grad_clip: float | None = ranged(1.0, 0.0)  # bound on the global gradient norm

    # batching
    minibatches: int = ranged(1, 1)  # optimizer steps per rollout
    micro_tokens: int = ranged(4096, 1)  # padded tokens per forward pass

    # processes
    tp: int = ranged(1, 1)  # tensor parallel
    pp: int = ranged(1, 1)  # pipeline parallel
    dp: int = ranged(1, 1)  # data parallel
    threads: int = ranged(1, 1)  # torch threads per process
    seed: int = ranged(0, 0)

    @property
    def needs_steps(self) -> bool:
        """The loss has to know decision steps."""
        return "step" in (self.ratio, self.aggregate)

    @property
    def world_size(self) -> int:
        """Processes of the grid."""
        return self.tp * self.pp * self.dp


def check_settings(settings: LearnerSettings) -> None:
    """Checks that concern more than one field.

    Raises:
        ConfigError: a decay that ends before it begins.
    """
    start = max(settings.warmup_steps, settings.decay_start)
    if settings.lr_decay != "constant" and settings.decay_steps <= start:
        raise ConfigError("decay_steps", settings.decay_steps, f"more than {start}")
