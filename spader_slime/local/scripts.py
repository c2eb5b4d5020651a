"""Scripted trajectories, token by token as a rollout would have recorded them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from spader_slime.agent.budget import TokenBudget
from spader_slime.agent.protocol import Protocol
from spader_slime.agent.protocols.spader import CitedSpaderProtocol, SpaderProtocol
from spader_slime.agent.template import ChatBoundary
from spader_slime.episode import Document
from spader_slime.errors import ConfigError

Sourced = tuple[int, str]  # a name and the number of the document it is from; 0: the question

_CACHED = 50_000  # prompts and observations kept as ids


@dataclass
class Script:
    """One trajectory; the arrays run over response tokens, as in an `Episode`.

    Attributes:
        prompt_ids: opening messages and generation prompt.
        response_ids: the assistant's turns and the observations between them.
        loss_mask: 1 on the assistant's tokens, its end-of-turn token included.
        turns: what the assistant writes, turn by turn, without end-of-turn tokens.
        documents: everything shown so far, in order.
    """

    prompt_ids: list[int]
    response_ids: list[int] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)

    def add(self, ids: Sequence[int], mask: int) -> None:
        """Append tokens of the assistant (1) or of an observation (0)."""
        self.response_ids.extend(ids)
        self.loss_mask.extend([mask] * len(ids))

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.response_ids)


class ScriptWriter:
    """Writes scripts through the protocol and the chat boundary that rollouts use.

    Args:
        budget: a script stays within it, so that no observation would be cut.
        max_turns: assistant turns of a trajectory; the last one is told to answer.

    Raises:
        ConfigError: the protocol is not one of those that scripts are written for, or the chat
            template has no token that ends a turn.
    """

    def __init__(
        self, protocol: Protocol, boundary: ChatBoundary, budget: TokenBudget, max_turns: int
    ) -> None:
        if not isinstance(protocol, SpaderProtocol):
            name = type(protocol).__name__
            raise ConfigError("cold_start", name, "protocol spader or spader_cited, or steps: 0")
        if boundary.end_id is None:
            raise ConfigError("chat template", None, "a token that ends a turn, or steps: 0")
        self._protocol, self._boundary = protocol, boundary
        self._budget, self._max_turns = budget, max_turns
        self._end = [boundary.end_id]
        self._cited = isinstance(protocol, CitedSpaderProtocol)
        self._prompt = lru_cache(_CACHED)(self._prompt_ids)
        self._observation = lru_cache(_CACHED)(self._observation_ids)

    def begin(self, question: str) -> Script:
        """A trajectory in which nothing has happened yet."""
        return Script(list(self._prompt(question)))

    def search(
        self, script: Script, source: int, query: str, documents: Sequence[Document]
    ) -> bool:
        """Add a search turn and what it shows; False, and nothing added, where that won't fit."""
        text = f"<tool_call>{self._list([(source, query)])}</tool_call>"
        said = self._turn_ids(text)
        shown = self._shown(script, query, documents)
        if not self._fits(script, said, shown):
            return False
        script.add(said, 1)
        script.add(shown, 0)
        script.turns.append(text)
        script.documents.extend(documents)
        return True

    def answer(self, script: Script, names: Sequence[Sourced]) -> None:
        """Add the answer turn, with as many of the names as its token limit allows."""
        room = min(self._budget.max_turn, self._room(script))
        for count in range(len(names), -1, -1):
            text = f"<answer>{self._list(names[:count])}</answer>"
            said = self._turn_ids(text)
            if len(said) <= room:
                break
        script.add(said, 1)
        script.turns.append(text)

    def copying(
        self, documents: Sequence[Document], start: int, names: Sequence[Sourced]
    ) -> Script:
        """An observation out of the blue, numbered from `start`, and an answer that copies it."""
        content = self._protocol.observation([""], [documents], start)
        script = Script(list(self._observation(content)))
        self.answer(script, names)
        return script

    def _shown(self, script: Script, query: str, documents: Sequence[Document]) -> Sequence[int]:
        last = len(script.turns) + 2 >= self._max_turns
        notes = [self._protocol.answer_now] if last else []
        start = len(script.documents) + 1
        return self._observation(self._protocol.observation([query], [documents], start, notes))

    def _fits(self, script: Script, said: Sequence[int], shown: Sequence[int]) -> bool:
        budget, turns = self._budget, len(script.turns)
        if turns + 1 >= self._max_turns or len(said) > budget.max_turn:
            return False
        left = self._room(script) - len(said) - len(shown)
        return len(shown) <= budget.max_observation and left >= budget.reserve

    def _room(self, script: Script) -> int:
        room = self._budget.max_response - len(script.response_ids)
        if self._budget.max_context is None:
            return room
        return min(room, self._budget.max_context - 1 - len(script))

    def _list(self, names: Sequence[Sourced]) -> str:
        texts = [f"[{source}] {name}" if self._cited else name for source, name in names]
        return json.dumps(texts, ensure_ascii=False)

    def _turn_ids(self, text: str) -> list[int]:
        return self._boundary.encode(text) + self._end

    def _prompt_ids(self, question: str) -> tuple[int, ...]:
        return tuple(self._boundary.prompt_ids(self._protocol.messages(question)))

    def _observation_ids(self, content: str) -> tuple[int, ...]:
        return tuple(self._boundary.observation_ids(content, last_id=self._end[0]))
