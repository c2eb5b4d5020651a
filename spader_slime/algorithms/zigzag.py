"""Which response tokens a context-parallel rank owns, in slime's zigzag layout."""

from __future__ import annotations

import torch


def owned_rows(total: int, response: int, rank: int, size: int) -> list[tuple[int, int]]:
    """[start, end) ranges of response tokens whose log-probs rank `rank` of `size` computes.

    The `total` tokens of a sequence are cut into 2 x size chunks of equal length (the last ones may
    be short or empty); a rank owns chunk `rank` and its mirror image. The logits at position p
    score token p + 1, so response token j belongs to the owner of position prompt - 1 + j.

    Raises:
        ValueError: lengths or rank out of range.
    """
    if not (0 <= response < total and 0 <= rank < size):
        raise ValueError(f"no such slice: {response} of {total} tokens, rank {rank} of {size}")
    chunk = -(-total // (2 * size))
    first = total - response - 1
    starts = (rank * chunk, (2 * size - 1 - rank) * chunk)
    return [_clip(start - first, start - first + chunk, response) for start in starts]


def _clip(start: int, end: int, length: int) -> tuple[int, int]:
    low = min(max(start, 0), length)
    return low, max(low, min(end, length))


def slice_response(
    values_T: torch.Tensor, total: int, response: int, rank: int, size: int
) -> torch.Tensor:
    """The rows of `values_T` ([T, ...], one per response token) that this rank owns, in order.

    Raises:
        ValueError: `values_T` does not have `response` rows, or the rank is out of range.
    """
    if len(values_T) != response:
        raise ValueError(f"{len(values_T)} values for a response of {response} tokens")
    if size == 1:
        return values_T
    ranges = owned_rows(total, response, rank, size)
    return torch.cat([values_T[start:end] for start, end in ranges])
