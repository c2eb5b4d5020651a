"""Checks at the door of the array functions: what is wrong is named, no NaN passes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spader_slime.errors import DataError


@dataclass(frozen=True)
class StepTable:
    """Checked rewards of N trajectories.

    Attributes:
        rewards_NS: float64 rewards, zero in the padding.
        mask_NS: True where a decision step exists.
        group_N: int64 group of each trajectory.
    """

    rewards_NS: NDArray[np.float64]
    mask_NS: NDArray[np.bool_]
    group_N: NDArray[np.int64]


def step_table(rewards_NS: ArrayLike, num_steps_N: ArrayLike, group_N: ArrayLike) -> StepTable:
    """Check and bring into shape what the advantage functions take.

    Raises:
        DataError: wrong shapes or types, a step count outside 0..S, NaN or infinite rewards.
    """
    rewards = _floats("rewards_NS", rewards_NS)
    steps, group = whole_numbers("num_steps_N", num_steps_N), whole_numbers("group_N", group_N)
    if rewards.ndim == 1 and rewards.size == 0:
        rewards = rewards.reshape(0, 0)
    if rewards.ndim != 2:
        raise DataError(f"rewards_NS must be a table [N, S], not of shape {rewards.shape}")
    num, width = rewards.shape
    if steps.shape != (num,) or group.shape != (num,):
        raise DataError(
            f"{num} rows of rewards need as many step counts and groups, "
            f"not {steps.shape} and {group.shape}"
        )
    if num and not 0 <= steps.min() <= steps.max() <= width:
        raise DataError(f"num_steps_N must lie in 0..{width}, not {steps.min()}..{steps.max()}")
    mask = np.arange(width) < steps[:, None]
    rewards = np.where(mask, rewards, 0.0)
    if not np.isfinite(rewards).all():
        row, step = np.argwhere(~np.isfinite(rewards))[0]
        raise DataError(f"reward of trajectory {row}, step {step} is {rewards[row, step]}")
    return StepTable(rewards, mask, group)


def whole_numbers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """A row of integers (floats only where they are whole).

    Raises:
        DataError: anything else.
    """
    try:
        raw = np.asarray(values)
        with np.errstate(invalid="ignore"):
            whole = raw.astype(np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} must be a row of whole numbers: {error}") from error
    if raw.ndim != 1 or raw.dtype.kind not in "iufb" or not np.array_equal(raw, whole):
        raise DataError(f"{name} must be a row of whole numbers, not {values!r}")
    return whole


def finite_number(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """`value` as a float within [low, high].

    Raises:
        DataError: no number, NaN, infinite, or out of range.
    """
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be a number, not {value!r}") from error
    if not math.isfinite(number) or not low <= number <= high:
        raise DataError(f"{name} must lie in [{low}, {high}], not {value!r}")
    return number


def _floats(name: str, values: ArrayLike) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be a table of numbers: {error}") from error
