"""One sequence on its way through the engine, and what comes out."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spader_slime.local.engine.runner import Piece
from spader_slime.local.engine.sampling import Draw
from spader_slime.local.engine.slots import Place
from spader_slime.local.engine.stops import Reason, Stops
from spader_slime.local.engine.wire import GenerateRequest

Scored = list[tuple[float, int]]  # (log-prob, token id)


@dataclass
class Scores:
    """Log-probs of some positions: of the token there, of the best ones, of those asked for."""

    tokens: Scored = field(default_factory=list)
    top: list[Scored] = field(default_factory=list)
    asked: list[Scored] = field(default_factory=list)

    def add(self, log_probs: Tensor, ids: Sequence[int], request: GenerateRequest) -> None:
        """Positions whose `log_probs`, [N, V], chose the N `ids`."""
        rows = torch.arange(len(ids), device=log_probs.device)
        own = log_probs[rows, torch.tensor(ids, device=log_probs.device)].tolist()
        self.tokens += zip(own, ids, strict=True)
        if request.top_num:
            best = log_probs.topk(request.top_num, dim=-1)
            pairs = zip(best.values.tolist(), best.indices.tolist(), strict=True)
            self.top += [list(zip(p, i, strict=True)) for p, i in pairs]
        if request.token_ids:
            rows_of = log_probs[:, list(request.token_ids)].tolist()
            self.asked += [list(zip(row, request.token_ids, strict=True)) for row in rows_of]


@dataclass(frozen=True)
class Result:
    """What was made of a request.

    Attributes:
        ids, log_probs: sampled tokens. reason: SGLang's finish_reason.
        input: scores of the prompt, from the second scored position on.
        output: best and asked-for tokens of sampled positions.
        cached: prompt tokens that did not have to be computed.
        version: of the weights. seconds: since the request came.
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


class Sequence_:
    """A request that is waiting or running."""

    def __init__(
        self, request: GenerateRequest, stops: Stops, done: Callable[[Result], None]
    ) -> None:
        self.request, self.stops, self.done = request, stops, done
        seed = request.params.sampling_seed
        self.seed = (secrets.randbits(63) if seed is None else seed) % 2**64
        self.began = time.perf_counter()
        self.ids: list[int] = []
        self.log_probs: list[float] = []
        self.input, self.output = Scores(), Scores()
        self.row, self.start, self.cached = -1, 0, 0
        self.pending: NDArray[np.int64] = request.input_ids

    @property
    def first_kept(self) -> int:
        """Prompt position from which logits are needed."""
        prompt = len(self.request.input_ids)
        return (
            min(self.request.score_from, prompt - 1) if self.request.return_logprob else prompt - 1
        )

    def enter(self, place: Place) -> None:
        """The sequence has a row now."""
        self.row, self.start, self.cached = place.row, place.reuse, place.reuse
        self.pending = self.request.input_ids[place.reuse :]

    def piece(self) -> Piece:
        """What the next forward pass computes."""
        return Piece(self.row, self.start, self.pending, max(0, self.first_kept - self.start))

    def score_prompt(self, logits: Tensor) -> None:
        """Take the logits kept of the prompt, the last one (for sampling) left out."""
        ids = self.request.input_ids[self.first_kept + 1 :].tolist()
        self.input.add(logits[: len(ids)].log_softmax(-1), ids, self.request)

    def advance(self) -> None:
        """The pending tokens are in the cache."""
        self.start += len(self.pending)

    def sampled(self, token: int, log_probs: Tensor) -> Reason | None:
        """Take the next token, drawn from `log_probs` [V]; the reason to end, or None."""
        if not self.request.params.max_new_tokens:
            return {"type": "length", "length": 0}
        self.ids.append(token)
        self.pending = np.array([token], dtype=np.int64)
        if self.request.top_num or self.request.token_ids:
            self.output.add(log_probs[None], [token], self.request)
        return self.stops.check(self.ids)

    def result(self, reason: Reason, version: str) -> Result:
        """What is there so far, as the final result."""
        seconds = time.perf_counter() - self.began
        return Result(
            self.request,
            self.ids,
            self.log_probs,
            reason,
            self.input,
            self.output,
            self.cached,
            version,
            seconds,
        )


def make_draw(sequences: Sequence[Any]) -> Draw:
    """How the next token of each sequence is drawn."""
    params = [s.request.params for s in sequences]
    greedy = [p.greedy for p in params]
    return Draw(
        np.array([1.0 if p.temperature < 1e-6 else p.temperature for p in params], np.float32),
        np.array(greedy),
        np.array([s.seed for s in sequences], np.uint64),
        np.array([len(s.request.input_ids) + len(s.ids) for s in sequences], np.int64),
        np.array([max(p.top_k, 0) for p in params], np.int64),
        np.array([p.top_p for p in params], np.float32),
        np.array([p.min_p for p in params], np.float32),
    )
