"""Hooks that note how the host calls them before they do their work.

A host is pointed at `contracts.recording.generate` and so on. Each wrapper binds the arguments it
was called with to the names of the real hook, and writes down names and types in `SEAMS`.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from spader_slime import hooks

SEAMS: dict[str, Any] = {}


def kind(value: Any) -> str:
    """The type of a value in words, containers with what they hold: `list[tensor[long, 1d]]`."""
    if isinstance(value, torch.Tensor):
        return f"tensor[{str(value.dtype).removeprefix('torch.')}, {value.dim()}d]"
    if isinstance(value, (list, tuple)):
        inside = sorted({kind(item) for item in value})
        return f"{type(value).__name__}[{' | '.join(inside)}]"
    return "none" if value is None else type(value).__name__


def keys(mapping: dict[str, Any]) -> dict[str, str]:
    return {str(key): kind(mapping[key]) for key in sorted(mapping)}


def note(seam: str, value: Any) -> None:
    """Write a seam down once; later calls must look the same."""
    assert SEAMS.setdefault(seam, value) == value, (seam, SEAMS[seam], value)


def note_call(seam: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    bound = inspect.signature(function).bind(*args, **kwargs)
    note(seam, {name: kind(value) for name, value in bound.arguments.items()})


def note_sample(seam: str, sample: Any) -> None:
    assert is_dataclass(sample)
    note(seam, sorted(field.name for field in fields(sample)))


async def generate(
    args: Any, sample: Any, sampling_params: dict[str, Any], evaluation: bool = False
) -> Any:
    where = "evaluation" if evaluation else "training"
    note_call(
        f"generate, {where}",
        hooks.generate,
        (args, sample, sampling_params),
        {"evaluation": evaluation},
    )
    note(f"sampling_params, {where}", sorted(sampling_params))
    note_sample("Sample fields", sample)
    note("Sample status names", sorted(status.name for status in type(sample).Status))
    before = copy.deepcopy(sampling_params)
    done = await hooks.generate(args, sample, sampling_params, evaluation=evaluation)
    assert sampling_params == before  # an evaluation shares one dictionary among its tasks
    return done


async def reward(*args: Any, **kwargs: Any) -> Any:
    many = isinstance(args[1], list)
    seam = "reward, group" if many else "reward, single"
    note_call(seam, hooks.reward, args, kwargs)
    value = await hooks.reward(*args, **kwargs)
    note(f"{seam}: result", kind(value))
    return value


def post_process_rewards(*args: Any, **kwargs: Any) -> Any:
    note_call("post_process_rewards", hooks.post_process_rewards, args, kwargs)
    value = hooks.post_process_rewards(*args, **kwargs)
    note("post_process_rewards: result", kind(value))
    return value


def compute_advantages(*args: Any, **kwargs: Any) -> None:
    note_call("compute_advantages", hooks.compute_advantages, args, kwargs)
    note("rollout_data before compute_advantages", keys(args[1]))
    hooks.compute_advantages(*args, **kwargs)
    note("rollout_data after compute_advantages", keys(args[1]))


def keep_informative_group(*args: Any, **kwargs: Any) -> Any:
    note_call("keep_informative_group", hooks.keep_informative_group, args, kwargs)
    verdict = hooks.keep_informative_group(*args, **kwargs)
    note("keep_informative_group: result", sorted(field.name for field in fields(verdict)))
    return verdict


def generate_rollout(*args: Any, **kwargs: Any) -> Any:
    where = "evaluation" if kwargs.get("evaluation") else "training"
    bound = inspect.signature(hooks.generate_rollout).bind(*args, **kwargs)
    names = {n: kind(v) for n, v in bound.arguments.items() if n != "data_source"}
    note(f"generate_rollout, {where}", names)
    output = hooks.generate_rollout(*args, **kwargs)
    note(f"generate_rollout, {where}: result", sorted(field.name for field in fields(output)))
    return output


class LossReached(Exception):
    """Raised by the recording loss: a trainer step needs to go no further."""


def policy_loss(args: Any, batch: dict[str, Any], logits: Any, sum_of_sample_mean: Any) -> Any:
    note("loss batch", keys(batch))
    raise LossReached
