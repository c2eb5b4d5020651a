"""Faults at random: aborts by the engine in the middle of turns, slow turns, broken searches."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from spader_slime import record
from spader_slime.episode import End
from support.alignment import calls_by_session, check_alignment
from support.engine import Call, Script, ScriptedEngine

SEARCH_FAULTS = 0.2
_KINDS = ("status", "garbage", "shape")


class Faults:
    """Dice for engine and search service."""

    def __init__(self, seed: int = 0) -> None:
        self._engine, self._search = random.Random(seed), random.Random(seed + 1)

    def search(self, number: int) -> str:
        """A broken answer for a fifth of the searches."""
        broken = self._search.random() < SEARCH_FAULTS
        return self._search.choice(_KINDS) if broken else ""

    def attach(self, engine: ScriptedEngine) -> None:
        """One call in thirty is cut by the engine itself, one in ten waits for an abort."""
        engine.cut, engine.hold = self._cut, self._hold

    def _cut(self, length: int) -> int | None:
        return self._engine.randrange(length) if self._engine.random() < 1 / 30 else None

    def _hold(self, call: Call) -> bool:
        """Asked over and over while the call waits; without an abort it ends by chance."""
        call.held = self._engine.random() < (0.9 if call.held else 0.1)
        return call.held


class Continuing:
    """A script that goes on with a turn that was cut, instead of starting it again."""

    def __init__(self, script: Script, replies: Sequence[str]) -> None:
        self.script, self.replies = script, replies

    def __call__(self, text: str) -> str:
        begun = text.rpartition("<|im_start|>assistant\n")[2]
        if not begun:
            return self.script(text)
        return next(r for r in self.replies if r.startswith(begun)).removeprefix(begun)


def check_rollouts(
    rollouts: list[list[Any]], metrics: list[dict[str, float]], engine: ScriptedEngine, mask: bool
) -> int:
    """No sample misaligned, none trained that was lost, and the counts add up.

    Rollout n must have been sampled by weight version "n". `mask`: what earlier versions sampled
    is out of the loss. Returns how many samples carry tokens of several versions.
    """
    calls, resumed = calls_by_session(engine), 0
    for number, (samples, numbers) in enumerate(zip(rollouts, metrics, strict=True)):
        ends = [record.episode_of(sample).end for sample in samples]
        for sample, end in zip(samples, ends, strict=True):
            versions = check_alignment(sample, calls)
            lost = end in (End.INFRASTRUCTURE, End.ABORTED)
            assert record.credit_of(sample).included is not lost
            assert sample.remove_sample is lost
            if not lost:
                trained = [v == str(number) or (v != "" and not mask) for v in versions]
                assert sample.loss_mask == list(map(int, trained))
                resumed += len(set(versions) - {""}) > 1
        assert numbers["spader/episodes"] == len(samples)
        for name, end in (("infrastructure", End.INFRASTRUCTURE), ("aborted", End.ABORTED)):
            assert numbers[f"spader/failed/{name}"] == ends.count(end)
    return resumed
