"""Faults at random: aborts by the engine in the middle of turns, slow turns, broken searches."""

from __future__ import annotations

import random
from collections.abc import Sequence

from support.engine import Call, Script, ScriptedEngine

SEARCH_FAULTS = 0.2
_KINDS = ("status", "garbage", "shape")


class Faults:
    """Dice for engine and search service."""

    def __init__(self, seed: int = 0) -> None:
        self._engine, self._search = random.Random(seed), random.Random(seed + 1)
        self.broken = self.cuts = 0  # searches, turns

    def search(self, number: int) -> str:
        """A broken answer for a fifth of the searches."""
        broken = self._search.random() < SEARCH_FAULTS
        self.broken += broken
        return self._search.choice(_KINDS) if broken else ""

    def attach(self, engine: ScriptedEngine) -> None:
        """One call in thirty is cut by the engine itself, one in ten waits for an abort."""
        engine.cut, engine.hold = self._cut, self._hold

    def _cut(self, length: int) -> int | None:
        if self._engine.random() >= 1 / 30:
            return None
        self.cuts += 1
        return self._engine.randrange(length)

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
