"""Adam on a sharded model: gradients brought together, clipped by their global norm, applied."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from torch import Tensor
from torch.nn import Parameter

from spader_slime.megatron.grid import sum_over
from spader_slime.megatron.model import PolicyModel
from spader_slime.megatron.settings import LearnerSettings


class Optimizer:
    """Decoupled-weight-decay Adam over this process' parameters.

    Args:
        sharded: tells by parameter name whether tensor-parallel ranks hold different parts of it.
    """

    def __init__(
        self, model: PolicyModel, settings: LearnerSettings, sharded: Callable[[str], bool]
    ) -> None:
        self.settings = settings
        self.steps = 0  # optimizer steps taken
        self.named: dict[str, Parameter] = dict(model.named_parameters())
        self.adam = torch.optim.AdamW(
            _groups(self.named.values(), settings),
            lr=settings.lr,
            betas=(settings.beta1, settings.beta2),
            eps=settings.eps,
            fused=True,
        )
        self._tp_partial = [
            p for n, p in self.named.items() if "q_layernorm" in n or "k_layernorm" in n
        ]
        self._shared = [p for p in self.named.values() if getattr(p, "shared_embedding", False)]
        first = parallel_state.get_tensor_model_parallel_rank() == 0
        self._counted = [
            p
            for name, p in self.named.items()
            if (first or sharded(name)) and not getattr(p, "shared", False)
        ]

    def zero(self) -> None:
        """Forget all gradients."""
        self.adam.zero_grad(set_to_none=True)

    def collect(self) -> None:
        """Make `.grad` the gradient of the whole batch on every process that holds the parameter.

        Query and key norms see only their rank's heads: summed over tensor-parallel ranks. Tied
        embeddings exist on the first and the last stage: summed over both. Then everything is
        summed over data-parallel ranks.
        """
        for parameter in self.named.values():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        _sum_gradients(self._tp_partial, parallel_state.get_tensor_model_parallel_group())
        if self._shared:
            _sum_gradients(self._shared, parallel_state.get_embedding_group())
        _sum_gradients(list(self.named.values()), parallel_state.get_data_parallel_group())

    def norm(self) -> float:
        """Global gradient norm, every parameter counted once. Call after `collect`."""
        grads = [p.grad for p in self._counted if p.grad is not None]
        norms = torch._foreach_norm(grads, dtype=torch.float64) if grads else [torch.zeros(1)]
        total = torch.stack(list(norms)).double().square().sum()
        return math.sqrt(sum_over(parallel_state.get_model_parallel_group(), total).item())

    def step(self) -> dict[str, float]:
        """Collect, clip, apply and forget the gradients.

        Returns:
            `grad_norm` before clipping and the learning rate used. A gradient that is not finite
            is not applied: `skipped` is 1 then.
        """
        self.collect()
        norm, lr = self.norm(), self.learning_rate()
        if math.isfinite(norm):
            self._clip(norm)
            for group in self.adam.param_groups:
                group["lr"] = lr * group["lr_scale"]
            self.adam.step()
        self.zero()
        self.steps += 1
        return {"grad_norm": norm, "lr": lr, "skipped": float(not math.isfinite(norm))}

    def _clip(self, norm: float) -> None:
        bound = self.settings.grad_clip
        if bound is not None and norm > bound:
            grads = [p.grad for p in self.named.values() if p.grad is not None]
            torch._foreach_mul_(grads, bound / (norm + 1e-6))

    def moment(self, parameter: Parameter, key: str) -> Tensor:
        """Adam's `exp_avg` or `exp_avg_sq` of a parameter; zero before the first step."""
        state = self.adam.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter, requires_grad=False)
            state["exp_avg_sq"] = torch.zeros_like(parameter, requires_grad=False)
        moment: Tensor = state[key]
        return moment

    def restore(self, moments: Mapping[str, Mapping[int, Tensor]], steps: int) -> None:
        """Put back the moments by parameter number, and the number of steps taken."""
        self.steps = steps
        for key, tensors in moments.items():
            for index, parameter in enumerate(self.named.values()):
                self.moment(parameter, key).copy_(tensors[index])
                self.adam.state[parameter]["step"].fill_(steps)

    def learning_rate(self) -> float:
        """Rate of the next step: linear warm-up, plateau, then decay from `decay_start` on."""
        return learning_rate(self.settings, self.steps)


def learning_rate(settings: LearnerSettings, step: int) -> float:
    """Learning rate of optimizer step `step` (from 0)."""
    if step < settings.warmup_steps:
        return settings.lr * (step + 1) / settings.warmup_steps
    if settings.lr_decay == "constant":
        return settings.lr
    start = max(settings.decay_start, settings.warmup_steps)
    done = min(1.0, max(0.0, (step - start) / (settings.decay_steps - start)))
    left = 1.0 - done if settings.lr_decay == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return settings.min_lr + (settings.lr - settings.min_lr) * left


def _groups(parameters: Iterable[Parameter], settings: LearnerSettings) -> list[dict[str, Any]]:
    """Embeddings (Megatron marks them; its flag is `--decoupled-lr`), other matrices, the rest."""
    everything, scale = list(parameters), settings.embedding_lr_scale
    embeddings = [p for p in everything if getattr(p, "is_embedding_or_output_parameter", False)]
    others = [p for p in everything if all(p is not e for e in embeddings)]
    decay = settings.weight_decay
    groups: list[dict[str, Any]] = [
        {"params": embeddings, "weight_decay": decay, "lr_scale": scale},
        {"params": [p for p in others if p.dim() > 1], "weight_decay": decay, "lr_scale": 1.0},
        {"params": [p for p in others if p.dim() <= 1], "weight_decay": 0.0, "lr_scale": 1.0},
    ]
    return [group for group in groups if group["params"]]


def _sum_gradients(parameters: Sequence[Parameter], group: dist.ProcessGroup) -> None:
    if not parameters or dist.get_world_size(group) == 1:
        return
    grads: list[Tensor] = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat, group=group)
    for grad, part in zip(grads, flat.split([g.numel() for g in grads]), strict=True):
        grad.copy_(part.view_as(grad))
