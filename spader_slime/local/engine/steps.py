"""The running batch: sequences enter it, every step samples one token of each, some leave it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from spader_slime.local.engine.batches import Batch
from spader_slime.local.engine.jobs import Job
from spader_slime.local.engine.outputs import Outputs
from spader_slime.local.engine.runner import Runner
from spader_slime.local.engine.sampling import Sampler
from spader_slime.local.engine.slots import Slots
from spader_slime.local.engine.stops import Reason

MAX_FILL = 4096  # prompt tokens computed in one forward pass
MAX_SCORED = 2**25  # logits kept of one prompt part

_SCORED: Reason = {"type": "length", "length": 0}

Part = tuple[Job, int, int]  # positions start..stop-1 of a job's ids


class Steps:
    """Owns the cache rows and the outputs that grow in them; lives in one thread.

    Attributes:
        jobs: the running ones, by row.
        version: of the weights.
    """

    def __init__(self, runner: Runner, end_ids: frozenset[int], tokenizer: Any) -> None:
        self.jobs: dict[int, Job] = {}
        self.version = "default"
        self.slots = Slots(runner.rows, runner.width)
        self._runner, self._vocab = runner, runner.vocab
        self._outputs = Outputs(runner.rows, runner.width, end_ids, tokenizer)
        self._sampler = Sampler(runner.vocab, runner.device)
        self._filling: list[Job] = []
        self._decoding: NDArray[np.int64] = np.zeros(0, np.int64)

    def enter(self, job: Job) -> None:
        """Give `job` a row; one must be free."""
        place = self.slots.take(job.ids, job.reusable)
        if place.source is not None:
            self._runner.cache.copy(place.source, place.row, place.reuse)
        job.row, job.cached = place.row, place.reuse
        self.jobs[job.row] = job
        self._outputs.enter(job)
        self._filling.append(job)

    def step(self) -> None:
        """One forward pass, and one token more for every sequence that is ready for it.

        A failing model (out of memory, say) ends all running sequences with an error.
        """
        parts = self._parts()
        try:
            logits = self._runner.forward(self._batch(parts))
        except RuntimeError as error:
            return self.leave(list(self.jobs), {"type": "error", "message": str(error)})
        self.slots.write_each(self._decoding, self._last_ids())
        ready, index = self._filled(parts, logits)
        self._sample(ready, logits if len(index) == len(logits) else logits[index])
        return self.leave([job.row for job, _, _ in parts if self._only_scored(job)], _SCORED)

    def leave(self, rows: list[int], reason: Reason) -> None:
        """End the sequences in `rows` with what they have."""
        for row in rows:
            job = self.jobs.pop(row)
            self.slots.release(row)
            job.finish(*self._outputs.leave(row), reason, self.version)
        self._filling = [job for job in self._filling if job.row in self.jobs]
        self._decoding = self._decoding[[int(row) in self.jobs for row in self._decoding]]

    def restart(self) -> None:
        """Forget all keys and values; running sequences compute theirs anew and go on."""
        self.slots.flush()
        self._filling, self._decoding = list(self.jobs.values()), np.zeros(0, np.int64)
        for row, job in self.jobs.items():
            sampled = self._outputs.ids[row, : self._outputs.counts[row]]
            job.ids = np.concatenate([job.request.input_ids, sampled])

    def _last_ids(self) -> NDArray[np.int64]:
        rows = self._decoding
        return self._outputs.ids[rows, self._outputs.counts[rows] - 1]

    def _parts(self) -> list[Part]:
        """What is filled in this step: the oldest first, within the budget; short ones first."""
        parts: list[Part] = []
        room = MAX_FILL
        for job in self._filling:
            start = int(self.slots.lengths[job.row])
            scoring = job.score_at < job.score_end
            most = min(room, max(16, MAX_SCORED // self._vocab)) if scoring else room
            parts.append((job, start, min(len(job.ids), start + most)))
            room -= parts[-1][2] - start
            if room <= 0:
                break
        return sorted(parts, key=lambda part: part[2] - part[1])

    def _batch(self, parts: list[Part]) -> Batch:
        rows = self._decoding
        sizes = np.array([stop - start for _, start, stop in parts], np.int64)
        keep, first = [np.arange(len(rows))], len(rows)
        for job, start, stop in parts:
            scored = job.scored_part(start, stop)
            wanted = [*scored, stop - 1] if stop == len(job.ids) else [*scored]
            keep.append(np.array(wanted, np.int64) + (first - start))
            first += stop - start
        return Batch(
            rows=np.concatenate([rows, np.array([job.row for job, _, _ in parts], np.int64)]),
            starts=np.concatenate(
                [self.slots.lengths[rows], np.array([start for _, start, _ in parts], np.int64)]
            ),
            sizes=np.concatenate([np.ones(len(rows), np.int64), sizes]),
            ids=np.concatenate([self._last_ids(), *(job.ids[a:b] for job, a, b in parts)]),
            keep=np.concatenate(keep),
        )

    def _filled(self, parts: list[Part], logits: Tensor) -> tuple[NDArray[np.int64], list[int]]:
        """Rows that get a token now, and where their logits are; scores prompts on the way."""
        rows, index = self._decoding.tolist(), list(range(len(self._decoding)))
        at = len(rows)
        for job, start, stop in parts:
            scored = job.scored_part(start, stop)
            if scored:
                job.score_prompt(scored, logits[at : at + len(scored)])
                at += len(scored)
            self.slots.write(job.row, job.ids[start:stop])
            if stop == len(job.ids):
                at += 1
                if job.request.params.max_new_tokens:
                    rows.append(job.row)
                    index.append(at - 1)
        self._filling = [j for j in self._filling if self.slots.lengths[j.row] < len(j.ids)]
        return np.array(rows, np.int64), index

    def _only_scored(self, job: Job) -> bool:
        done = int(self.slots.lengths[job.row]) == len(job.ids)
        return done and not job.request.params.max_new_tokens

    def _sample(self, rows: NDArray[np.int64], logits: Tensor) -> None:
        ends: dict[int, Reason] = {}
        if len(rows):
            ids, log_probs = self._sampler(logits, self._outputs.draw(rows))
            self._score_outputs(rows, ids, logits)
            ends = self._outputs.add(rows, ids, log_probs)
        self._decoding = np.sort(rows)
        for row, reason in ends.items():
            self.leave([row], reason)

    def _score_outputs(
        self, rows: NDArray[np.int64], ids: NDArray[np.int64], logits: Tensor
    ) -> None:
        """Scores beyond the sampled token's own, for the few that want them."""
        for index, row in enumerate(rows.tolist()):
            request = self.jobs[row].request
            if request.return_logprob and (request.top_num or request.token_ids):
                log_probs = logits[index : index + 1].log_softmax(-1)
                self.jobs[row].output.add(log_probs, [int(ids[index])], request)
