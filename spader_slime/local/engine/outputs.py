"""The outputs of all running rows as arrays, so that a step costs the same for one and for many."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spader_slime.local.engine.jobs import Job
from spader_slime.local.engine.params import GREEDY_BELOW
from spader_slime.local.engine.sampling import Draw
from spader_slime.local.engine.stops import Reason, StopStrings

Rows = NDArray[np.int64]


class Outputs:
    """By row: how its next token is drawn, what was sampled, and where it ends.

    Args:
        rows, width: of the cache.
        end_ids: the model's own end tokens.
        tokenizer: reads outputs where stop strings are given.
    """

    def __init__(self, rows: int, width: int, end_ids: frozenset[int], tokenizer: Any) -> None:
        self.ids = np.zeros((rows, width), np.int64)
        self.log_probs = np.zeros((rows, width), np.float32)
        self.counts = np.zeros(rows, np.int64)
        self._end_ids = end_ids
        self._stop_ids = np.full((rows, max(1, len(end_ids))), -1, np.int64)
        self._limits = np.zeros(rows, np.int64)
        self._strings: dict[int, StopStrings] = {}
        self._prompts = np.zeros(rows, np.int64)
        self._seeds = np.zeros(rows, np.uint64)
        self._temperature, self._top_p, self._min_p = np.ones((3, rows), np.float32)
        self._greedy = np.zeros(rows, np.bool_)
        self._top_k = np.zeros(rows, np.int64)
        self._stop_strings = lru_cache(64)(lambda strings: StopStrings(strings, tokenizer))

    def enter(self, job: Job) -> None:
        """`job` starts with an empty output in its row."""
        row, params = job.row, job.request.params
        self.counts[row], self._prompts[row] = 0, len(job.request.input_ids)
        self._limits[row], self._seeds[row] = params.max_new_tokens, job.seed
        self._greedy[row] = params.greedy
        self._temperature[row] = params.temperature if params.temperature >= GREEDY_BELOW else 1
        self._top_k[row], self._top_p[row] = max(params.top_k, 0), params.top_p
        self._min_p[row] = params.min_p
        self._set_stop_ids(
            row, set() if params.ignore_eos else self._end_ids, params.stop_token_ids
        )
        self._strings.pop(row, None)
        if params.stop:
            self._strings[row] = self._stop_strings(params.stop)

    def _set_stop_ids(self, row: int, own: Any, given: tuple[int, ...]) -> None:
        ids = sorted({*own, *given})
        missing = len(ids) - self._stop_ids.shape[1]
        if missing > 0:
            self._stop_ids = np.pad(self._stop_ids, ((0, 0), (0, missing)), constant_values=-1)
        self._stop_ids[row] = -1
        self._stop_ids[row, : len(ids)] = ids

    def draw(self, rows: Rows) -> Draw:
        """How the next token of each of `rows` is drawn."""
        return Draw(
            self._temperature[rows],
            self._greedy[rows],
            self._seeds[rows],
            self._prompts[rows] + self.counts[rows],
            self._top_k[rows],
            self._top_p[rows],
            self._min_p[rows],
        )

    def add(self, rows: Rows, ids: Rows, log_probs: NDArray[np.float32]) -> dict[int, Reason]:
        """Append one token to each of `rows`; why some of them end with it, by row."""
        counts = self.counts[rows]
        self.ids[rows, counts], self.log_probs[rows, counts] = ids, log_probs
        self.counts[rows] = counts + 1
        stopped = (ids[:, None] == self._stop_ids[rows]).any(1)
        ends: dict[int, Reason] = {
            int(rows[i]): {"type": "stop", "matched": int(ids[i])} for i in np.flatnonzero(stopped)
        }
        self._find_strings(rows, ends)
        for row in rows[counts + 1 >= self._limits[rows]].tolist():
            ends.setdefault(row, {"type": "length", "length": int(self.counts[row])})
        return ends

    def _find_strings(self, rows: Rows, ends: dict[int, Reason]) -> None:
        if not self._strings:
            return
        for row in rows.tolist():
            strings = self._strings.get(row)
            if strings is not None and row not in ends:
                count = int(self.counts[row])
                tail = self.ids[row, max(0, count - strings.tail) : count].tolist()
                matched = strings.find(tail)
                if matched is not None:
                    ends[row] = {"type": "stop", "matched": matched}

    def leave(self, row: int) -> tuple[list[int], list[float]]:
        """Sampled ids and log-probs of a row that ends."""
        count = int(self.counts[row])
        self._strings.pop(row, None)
        self.counts[row] = 0
        return self.ids[row, :count].tolist(), self.log_probs[row, :count].tolist()
