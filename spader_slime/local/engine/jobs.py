"""One request on its way through the engine, and what comes out."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spader_slime.local.engine.stops import Reason
from spader_slime.local.engine.wire import GenerateRequest

Scored = list[tuple[float, int]]  # (log-prob, token id)


@dataclass
class Scores:
    """Log-probs of some positions: of the token there, of the best ones, of those asked for."""

    tokens: Scored = field(default_factory=list)
    top: list[Scored] = field(default_factory=list)
    asked: list[Scored] = field(default_factory=list)

    def add(self, log_probs: Tensor, ids: Sequence[int], request: GenerateRequest) -> None:
        """Positions whose `log_probs`, [N, V], are to be read at the N `ids`."""
        own = log_probs.gather(1, torch.tensor(ids, device=log_probs.device)[:, None])[:, 0]
        self.tokens += zip(own.tolist(), ids, strict=True)
        if request.top_num:
            best = log_probs.topk(request.top_num, dim=-1)
            pairs = zip(best.values.tolist(), best.indices.tolist(), strict=True)
            self.top += [list(zip(p, i, strict=True)) for p, i in pairs]
        if request.token_ids:
            asked = log_probs[:, list(request.token_ids)].tolist()
            self.asked += [list(zip(row, request.token_ids, strict=True)) for row in asked]


@dataclass(frozen=True)
class Result:
    """What was made of a request.

    Attributes:
        ids, log_probs: sampled tokens, log-probs in nats.
        reason: SGLang's finish_reason; type "error" when the model failed.
        input: scores of the prompt, from the second scored position on.
        output: scores of sampled positions, where best or asked-for tokens are wanted.
        cached: prompt tokens that did not have to be computed.
        version: of the weights that sampled last.
        seconds: since the request came.
    """

    request: GenerateRequest
    ids: list[int]
    log_probs: list[float]
    reason: Reason
    input: Scores
    output: Scores
    cached: int
    version: str
    seconds: float


class Job:
    """A request that is waiting or running.

    Attributes:
        ids: what must be in the cache before the next token is sampled, int64.
        score_at: next prompt position whose logits are to be scored (see `score_end`).
        row: of the cache; -1 while waiting.
    """

    def __init__(self, request: GenerateRequest, done: Callable[[Result], None]) -> None:
        self.request, self.done = request, done
        seed = request.params.sampling_seed
        self.seed = (secrets.randbits(63) if seed is None else seed) % 2**64
        self.began = time.perf_counter()
        self.ids: NDArray[np.int64] = request.input_ids
        self.input, self.output = Scores(), Scores()
        self.row, self.cached = -1, 0
        self.score_at = request.score_from if request.return_logprob else self.score_end

    @property
    def score_end(self) -> int:
        """Logits of prompt positions from here on score no prompt token."""
        return len(self.request.input_ids) - 1

    @property
    def reusable(self) -> int:
        """So many tokens may come from the cache: some logits of the rest are needed."""
        return min(self.score_at, self.score_end)

    def scored_part(self, start: int, stop: int) -> range:
        """Of the positions start..stop-1, those that score a prompt token."""
        first = max(start, self.score_at)
        return range(first, max(first, min(stop, self.score_end)))

    def score_prompt(self, positions: range, logits: Tensor) -> None:
        """Take float32 `logits` [N, V] of N prompt positions; temperature plays no part."""
        ids = self.request.input_ids[positions.start + 1 : positions.stop + 1].tolist()
        self.input.add(logits.log_softmax(-1), ids, self.request)
        self.score_at = positions.stop

    def finish(self, ids: list[int], log_probs: list[float], reason: Reason, version: str) -> None:
        """Hand over what was sampled."""
        seconds = time.perf_counter() - self.began
        made = (self.input, self.output, self.cached, version, seconds)
        self.done(Result(self.request, ids, log_probs, reason, *made))
