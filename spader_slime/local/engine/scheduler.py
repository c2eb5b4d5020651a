"""Continuous batching: one thread that owns the model; everything else talks to it by messages."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch

from spader_slime.errors import EngineError
from spader_slime.local.engine.runner import Runner
from spader_slime.local.engine.sampling import Sampler
from spader_slime.local.engine.sequences import Result, Sequence_, make_draw
from spader_slime.local.engine.slots import Slots
from spader_slime.local.engine.stops import Stops
from spader_slime.local.engine.wire import GenerateRequest

MAX_FILL = 8192  # prompt tokens computed in one forward pass, beyond the first sequence
_ABORTED = {"type": "abort", "message": "Abort in waiting queue or while running"}


class Scheduler:
    """Runs requests on `runner`, as many at once as there are rows.

    New weights wait until the running sequences are finished, and new sequences wait for them, so
    that no sequence is sampled by two policies.
    """

    def __init__(self, runner: Runner, rows: int, width: int, end_ids: Any, tokenizer: Any) -> None:
        self.version = "default"
        self._runner, self._tokenizer = runner, tokenizer
        self._end_ids = frozenset(end_ids)
        self._slots = Slots(rows, width)
        self._sampler = Sampler(runner.vocab, runner.device)
        self._waiting: deque[Sequence_] = deque()
        self._running: list[Sequence_] = []
        self._inbox: deque[Callable[[], None]] = deque()
        self._when_idle: deque[tuple[Callable[[], None], Future[None]]] = deque()
        self._wake = threading.Condition()
        self._paused = self._stopped = False
        self._last: list[int] = []  # of each running sequence, its last place among the logits
        self._thread = threading.Thread(target=self._loop, daemon=True, name="scheduler")

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Abort everything and end the thread."""
        self.abort("", everything=True)
        self._post(self._set_stopped)
        self._thread.join()

    def submit(self, request: GenerateRequest, done: Callable[[Result], None]) -> None:
        """Queue a request; `done` is called in the scheduler's thread."""
        stops = Stops(request.params, self._end_ids, self._tokenizer)
        sequence = Sequence_(request, stops, done)
        self._post(lambda: self._waiting.append(sequence))

    def abort(self, rid: str, everything: bool = False) -> None:
        """End all requests whose id starts with `rid` (or all), with what they have."""
        self._post(lambda: self._abort(rid, everything))

    def pause(self, paused: bool) -> None:
        """Hold all sequences where they are, or let them go on."""
        self._post(lambda: setattr(self, "_paused", paused))

    def update_weights(self, folder: Path, version: str | None) -> Future[None]:
        """Take the weights of `folder` once nothing runs; the cache is flushed with it.

        The future raises `EngineError` where they can't be taken; the old ones stay then.
        """
        return self._at_rest(lambda: self._update(folder, version))

    def flush(self) -> Future[None]:
        """Forget all cached keys and values once nothing runs."""
        return self._at_rest(self._slots.flush)

    @property
    def loads(self) -> tuple[int, int]:
        """(running, waiting) sequences."""
        return len(self._running), len(self._waiting)

    def _post(self, message: Callable[[], None]) -> None:
        with self._wake:
            self._inbox.append(message)
            self._wake.notify()

    def _at_rest(self, work: Callable[[], None]) -> Future[None]:
        future: Future[None] = Future()
        self._post(lambda: self._when_idle.append((work, future)))
        return future

    def _set_stopped(self) -> None:
        self._stopped = True

    @torch.inference_mode()
    def _loop(self) -> None:
        while not self._stopped:
            self._read_inbox()
            if not self._running:
                self._rest()
            if not self._when_idle and not self._paused:
                self._admit()
            if self._running and not self._paused:
                self._step()

    def _read_inbox(self) -> None:
        with self._wake:
            if not self._inbox and not self._has_work():
                self._wake.wait()
            messages, self._inbox = self._inbox, deque()
        for message in messages:
            message()

    def _has_work(self) -> bool:
        active = bool(self._running or self._waiting) and not self._paused
        return active or (bool(self._when_idle) and not self._running)

    def _rest(self) -> None:
        while self._when_idle:
            work, future = self._when_idle.popleft()
            try:
                work()
            except EngineError as error:
                future.set_exception(error)
            else:
                future.set_result(None)

    def _update(self, folder: Path, version: str | None) -> None:
        self._runner.load_weights(folder)
        self._slots.flush()
        number = int(self.version) + 1 if self.version.isdigit() else 1
        self.version = str(number) if version is None else version

    def _admit(self) -> None:
        fill = 0
        while self._waiting:
            sequence = self._waiting[0]
            prompt = sequence.request.input_ids
            if fill and fill + len(prompt) > MAX_FILL:
                return
            place = self._slots.take(prompt, sequence.first_kept)
            if place is None:
                return
            if place.source is not None:
                self._runner.cache.copy(place.source, place.row, place.reuse)
            sequence.enter(place)
            fill += len(sequence.pending)
            self._running.append(self._waiting.popleft())

    def _step(self) -> None:
        self._running.sort(key=lambda s: (len(s.pending), s.row))
        try:
            logits = self._runner.forward([s.piece() for s in self._running])
            self._score_prompts(logits)
            for sequence in self._running:
                self._slots.write(sequence.row, sequence.pending)
            self._sample(logits)
        except Exception as error:  # out of memory, for one: clients are told, the engine goes on
            self._fail(f"{type(error).__name__}: {error}")

    def _score_prompts(self, logits: torch.Tensor) -> None:
        """Score what is asked for, and keep each sequence's place among the logits."""
        start, self._last = 0, []
        for sequence in self._running:
            piece = sequence.piece()
            count = len(piece.ids) - piece.keep
            if count > 1:
                sequence.score_prompt(logits[start : start + count])
            start += count
            self._last.append(start - 1)

    def _sample(self, logits: torch.Tensor) -> None:
        final = logits if len(self._last) == len(logits) else logits[self._last]
        tokens, log_probs = self._sampler(final, make_draw(self._running))
        own = log_probs.gather(1, tokens[:, None])[:, 0].tolist()
        going = []
        for index, token in enumerate(tokens.tolist()):
            sequence = self._running[index]
            sequence.advance()
            reason = sequence.sampled(token, log_probs[index])
            if sequence.ids:
                sequence.log_probs.append(own[index])
            if reason is None:
                going.append(sequence)
            else:
                self._finish(sequence, reason)
        self._running = going

    def _finish(self, sequence: Sequence_, reason: dict[str, Any]) -> None:
        if sequence.row >= 0:
            self._slots.release(sequence.row)
        sequence.done(sequence.result(reason, self.version))

    def _abort(self, rid: str, everything: bool) -> None:
        def meant(sequence: Sequence_) -> bool:
            return everything or (bool(rid) and sequence.request.rid.startswith(rid))

        gone = [s for s in (*self._running, *self._waiting) if meant(s)]
        self._running = [s for s in self._running if not meant(s)]
        self._waiting = deque(s for s in self._waiting if not meant(s))
        for sequence in gone:
            self._finish(sequence, _ABORTED)

    def _fail(self, message: str) -> None:
        logging.getLogger(__name__).exception("a forward pass failed")
        failed, self._running = self._running, []
        for sequence in failed:
            self._finish(sequence, {"type": "error", "message": message})
        self._slots.flush()
