"""What a teacher says of one response, and the one float tensor in which it travels.

The only key of slime that carries numbers per token from the rollout to the loss for a teacher is
`teacher_log_probs`, a float32 tensor that is cut along its first axis. A row of it holds, in this
order: log-prob of the sampled token, entropy, weight, gate, k ids, k log-probs.

Legend: T response token, K the teacher's most probable tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from spader_slime.errors import DataError

SINGLES = 4  # columns before the ids
MAX_ID = 2**24  # float32 holds every integer up to here


@dataclass(frozen=True)
class TeacherScores:
    """Scores of T tokens. Log-probs and entropies in nats; all float32 but the ids.

    Attributes:
        log_probs_T: of the sampled tokens.
        entropy_T: of the teacher's distribution.
        weight_T: 1 where the token takes part in distillation, else 0 (observations, lost scores).
        gate_T: 1 where the forward KL applies, else 0; never where the weight is 0.
        ids_TK: the most probable tokens, int64.
        log_probs_TK: of these.
    """

    log_probs_T: Tensor
    entropy_T: Tensor
    weight_T: Tensor
    gate_T: Tensor
    ids_TK: Tensor
    log_probs_TK: Tensor

    def at(self, rows: Tensor) -> TeacherScores:
        """Of the chosen tokens only."""
        return TeacherScores(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def pack(self) -> Tensor:
        """float32 [T, 4 + 2 K].

        Raises:
            DataError: an id that float32 can't hold exactly.
        """
        if self.ids_TK.numel() and int(self.ids_TK.max()) > MAX_ID:
            raise DataError(f"token id {int(self.ids_TK.max())} is past {MAX_ID}")
        columns = (self.log_probs_T, self.entropy_T, self.weight_T, self.gate_T)
        front = torch.stack(columns, 1).float()
        return torch.cat([front, self.ids_TK.float(), self.log_probs_TK.float()], 1)


@dataclass(frozen=True)
class Lesson:
    """How a teacher judged one trajectory.

    Attributes:
        scores: one entry per response token.
        fault: kind of the teacher's fault (`errors.TEACHER_ERROR_KINDS`), or None.
        seconds: wall-clock of the call, with its retries.
    """

    scores: TeacherScores
    fault: str | None
    seconds: float


def unpack(packed: Tensor) -> TeacherScores:
    """Inverse of `TeacherScores.pack`, also for some of its rows.

    Raises:
        DataError: not a matrix of a width that `pack` gives.
    """
    width = packed.shape[1] if packed.dim() == 2 else 0
    if width < SINGLES or (width - SINGLES) % 2:
        raise DataError(f"teacher scores of shape {tuple(packed.shape)}; expected [T, 4 + 2 K]")
    own, entropy, weight, gate = packed[:, :SINGLES].unbind(1)
    top_k = (width - SINGLES) // 2
    ids, log_probs = packed[:, SINGLES:].split([top_k, top_k], 1)
    return TeacherScores(own, entropy, weight, gate, ids.long(), log_probs)


def no_scores(length: int, top_k: int) -> TeacherScores:
    """Scores of a response that the teacher did not judge: right shape, weight 0."""
    return unpack(torch.zeros(length, SINGLES + 2 * top_k))


def response_log_probs(
    ids: Sequence[int], prompt_len: int, start: int, entries: Sequence[Any]
) -> Tensor:
    """Log-probs of the response tokens `ids[prompt_len:]`, nats, float32 [T].

    Args:
        ids: prompt and response.
        start: the request's `logprob_start_len`, below `prompt_len`.
        entries: SGLang's `input_token_logprobs`, `[log-prob, id, text]` of tokens `start` and on.
            The first is always empty, whatever the token.

    Raises:
        DataError: too few or too many entries, of other tokens, or not finite.
    """
    response = ids[prompt_len:]
    if not response:
        return torch.zeros(0)
    if not 0 <= start < prompt_len:
        raise DataError(f"scores from token {start}; expected 0 to {prompt_len - 1}")
    if len(entries) != len(ids) - start:
        raise DataError(f"{len(entries)} scores; expected {len(ids) - start}")
    found = entries[prompt_len - start :]
    if [entry[1] for entry in found] != list(response):
        raise DataError("scores of other tokens than the response's")
    values = [math.nan if entry[0] is None else float(entry[0]) for entry in found]
    if not all(map(math.isfinite, values)):
        raise DataError("scores that are missing or not finite")
    return torch.tensor(values)
