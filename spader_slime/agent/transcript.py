"""Builds an `Episode` token by token; every array grows together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from spader_slime.agent.policy import Generation
from spader_slime.episode import Document, Episode, Turn, TurnKind

OnTokens = Callable[[list[int], "list[float] | None", "dict[str, Any] | None", str], None]
"""Called with (ids, log_probs, meta_info, text); log_probs and meta_info None: an observation."""


class Transcript:
    """The growing record of one trajectory.

    The current turn is in `episode.turns` from its first token on, and `episode.open_turn` says
    that more of its tokens may come (the engine was stopped in the middle of it).
    """

    def __init__(self, episode: Episode, on_tokens: OnTokens | None = None) -> None:
        self.episode = episode
        self._on_tokens = on_tokens or (lambda *_: None)

    @property
    def turn(self) -> Turn:
        """The current turn."""
        return self.episode.turns[-1]

    @property
    def turn_ids(self) -> list[int]:
        """What was sampled in the current turn."""
        start, end = self.turn.span
        return self.episode.response_ids[start:end]

    @property
    def last_id(self) -> int:
        """The last token of the current turn."""
        return self.episode.response_ids[self.turn.span[1] - 1]

    @property
    def previous_id(self) -> int:
        """The last sampled token before the current turn (there must be an earlier turn)."""
        return self.episode.response_ids[self.episode.turns[-2].span[1] - 1]

    @property
    def open_tokens(self) -> int:
        """Tokens of a turn that is still open."""
        return self.turn.span[1] - self.turn.span[0] if self.episode.open_turn else 0

    @property
    def awaits_observation(self) -> bool:
        """The last turn is complete and nothing followed it."""
        episode = self.episode
        if episode.open_turn or not episode.turns:
            return False
        return self.turn.span[1] == len(episode.response_ids)

    @property
    def documents_shown(self) -> int:
        """Documents shown so far in the whole trajectory."""
        return sum(len(turn.documents) for turn in self.episode.turns)

    def sampled(self, generation: Generation, text: str = "", seconds: float = 0.0) -> None:
        """Add sampled tokens to the open turn, or start one. No tokens: no decision step."""
        episode, ids = self.episode, generation.ids
        if not episode.open_turn and ids:
            start = len(episode.response_ids)
            episode.turns.append(Turn((start, start), TurnKind.NONE))
            episode.open_turn = True
        if episode.open_turn:
            self._grow_turn(generation, seconds)
        self._append(ids, generation.log_probs, 1)
        episode.open_turn = episode.open_turn and generation.finish == "abort"
        if ids:
            self._on_tokens(ids, generation.log_probs, generation.meta_info, text)

    def observed(
        self,
        ids: Sequence[int],
        text: str = "",
        documents: Sequence[Document] = (),
        cut: bool = False,
    ) -> None:
        """Add an observation after the current turn."""
        self._append(ids, [0.0] * len(ids), 0)
        self.note(documents=tuple(documents), observation_tokens=len(ids), cut=cut)
        self._on_tokens(list(ids), None, None, text)

    def note(self, **changes: Any) -> None:
        """Change fields of the current turn."""
        self.episode.turns[-1] = replace(self.turn, **changes)

    def _grow_turn(self, generation: Generation, seconds: float) -> None:
        start, end = self.turn.span
        versions, version = self.turn.weight_versions, generation.weight_version
        if generation.ids and version is not None and version not in versions:
            versions = (*versions, version)
        self.note(
            span=(start, end + len(generation.ids)),
            weight_versions=versions,
            engine_s=self.turn.engine_s + seconds,
        )

    def _append(self, ids: Sequence[int], log_probs: Sequence[float], mask: int) -> None:
        assert len(ids) == len(log_probs)
        episode = self.episode
        episode.response_ids.extend(ids)
        episode.log_probs.extend(log_probs)
        episode.loss_mask.extend([mask] * len(ids))


def mask_off_policy(episode: Episode) -> None:
    """Leave everything sampled so far out of the loss; the decision steps stay."""
    episode.loss_mask = [0] * len(episode.response_ids)
