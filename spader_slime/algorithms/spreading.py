"""From one advantage per decision step to one per token (SPADER, section 2, "Step-wise GRPO")."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spader_slime.algorithms.checks import whole_numbers
from spader_slime.errors import DataError

Spans = Sequence[Sequence[int]]


def spread_over_tokens(
    advantages_S: ArrayLike, step_spans: Spans, length: int
) -> NDArray[np.float32]:
    """Give each decision step's advantage to the tokens of its span; other tokens get 0.

    Args:
        advantages_S: one value per decision step; zeros may follow as padding.
        step_spans: [start, end) of each decision step in response tokens, in order.
        length: response tokens, >= 0.

    Returns:
        float32 array of `length` values.

    Raises:
        DataError: a span that leaves 0..length or overlaps the one before, more spans than
            advantages, a nonzero advantage without a span, NaN or infinity, negative length.
    """
    if not isinstance(length, (int, np.integer)) or length < 0:
        raise DataError(f"length must be a whole number >= 0, not {length!r}")
    tokens_T = np.zeros(length, dtype=np.float32)
    _fill(tokens_T, _as_floats(advantages_S, 1).tolist(), step_spans, int(length))
    return tokens_T


def spread_with_steps(
    advantages_S: ArrayLike, step_spans: Spans, length: int
) -> NDArray[np.float32]:
    """`spread_over_tokens` with a second column: the number of the token's decision step.

    Returns:
        float32 [length, 2]; the first decision step has number 1, tokens of none have 0.

    Raises:
        DataError: as `spread_over_tokens`.
    """
    numbers_S = np.arange(1, len(step_spans) + 1)
    columns = [
        spread_over_tokens(values_S, step_spans, length) for values_S in (advantages_S, numbers_S)
    ]
    return np.stack(columns, axis=1)


def spread_batch(
    advantages_NS: ArrayLike,
    step_spans_N: Sequence[Spans],
    lengths_N: Sequence[int],
    width: int | None = None,
) -> NDArray[np.float32]:
    """`spread_over_tokens` for N trajectories, into one float32 table [N, width].

    `width` defaults to the longest response; what lies past a trajectory's length stays 0.

    Raises:
        DataError: as `spread_over_tokens`; counts that don't agree; a length above `width`.
    """
    table_NS, lengths = _as_floats(advantages_NS, 2), whole_numbers("lengths_N", lengths_N)
    width = int(lengths.max(initial=0)) if width is None else width
    if not len(table_NS) == len(step_spans_N) == len(lengths):
        raise DataError(
            f"{len(table_NS)} rows of advantages, {len(step_spans_N)} of spans, "
            f"{len(lengths)} lengths"
        )
    if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= width:
        raise DataError(f"lengths must lie in 0..{width}, not {lengths.min()}..{lengths.max()}")
    values = _step_values(table_NS, step_spans_N)
    pieces = _piece_lengths(step_spans_N, lengths, width)
    alternating = np.zeros(len(pieces), dtype=np.float32)
    alternating[1::2] = values
    return np.repeat(alternating, pieces).reshape(len(lengths), width)


def _step_values(table_NS: NDArray[np.float64], spans_N: Sequence[Spans]) -> NDArray[np.float64]:
    """The advantages of all spans in a row; what stands behind them must be padding."""
    num_steps = np.fromiter(map(len, spans_N), np.int64, len(spans_N))
    if num_steps.max(initial=0) > table_NS.shape[1]:
        raise DataError(f"{num_steps.max()} step spans but {table_NS.shape[1]} advantages")
    has_span = np.arange(table_NS.shape[1]) < num_steps[:, None]
    if table_NS[~has_span].any():
        raise DataError("advantages past a trajectory's last step span must be 0")
    return table_NS[has_span]


def _piece_lengths(
    spans_N: Sequence[Spans], lengths: NDArray[np.int64], width: int
) -> NDArray[np.int64]:
    """Tokens of the table, read row by row, as gap, span, gap, span, ..., gap."""
    if not set(map(len, chain.from_iterable(spans_N))) <= {2}:
        raise DataError("a step span must be a pair [start, end)")
    flat = np.fromiter(chain.from_iterable(chain.from_iterable(spans_N)), np.int64)
    num_steps = np.fromiter(map(len, spans_N), np.int64, len(spans_N))
    row = np.repeat(np.arange(len(lengths)), 2 * num_steps)
    last = np.where(np.diff(row, prepend=-1) > 0, 0, np.roll(flat, 1))
    for bad in np.flatnonzero((flat < last) | (flat > lengths[row]))[:1]:
        start, end = flat[bad - bad % 2 :][:2]
        raise DataError(_misplaced(start, end, lengths[row[bad]]))
    return np.diff(flat + row * width, prepend=0, append=len(lengths) * width)


def _fill(
    tokens_T: NDArray[np.float32], advantages: list[float], spans: Spans, length: int
) -> None:
    if len(spans) > len(advantages):
        raise DataError(f"{len(spans)} step spans but {len(advantages)} advantages")
    if any(advantages[len(spans) :]):
        raise DataError(f"advantages past the last of {len(spans)} step spans must be 0")
    if any(len(span) != 2 for span in spans):
        raise DataError("a step span must be a pair [start, end)")
    last = 0
    for advantage, (start, end) in zip(advantages, spans, strict=False):
        if not last <= start <= end <= length:
            raise DataError(_misplaced(start, end, length))
        tokens_T[start:end] = advantage
        last = end


def _misplaced(start: int, end: int, length: int) -> str:
    return f"step span [{start}, {end}) overlaps the one before or leaves 0..{length}"


def _as_floats(values: ArrayLike, axes: int) -> NDArray[np.float64]:
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"advantages must be numbers: {error}") from error
    if axes == 2 and table.size == 0:
        table = table.reshape(len(table), 0)
    if table.ndim != axes:
        raise DataError(f"advantages must have {axes} axes, not the shape {table.shape}")
    if not np.isfinite(table).all():
        raise DataError("advantages must be finite")
    return table
