"""Observations that fit: what is shown of a turn's results, and when the model must answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spader_slime.agent.budget import TokenBudget, largest
from spader_slime.agent.cutting import Found, shorten, still_named
from spader_slime.agent.protocol import Protocol
from spader_slime.agent.template import ChatBoundary
from spader_slime.agent.transcript import Transcript
from spader_slime.episode import Document

Write = Callable[[Found, Sequence[str]], str]  # (documents, notes) -> content of the message


@dataclass(frozen=True)
class Observation:
    """Tokens that follow a turn.

    Attributes:
        ids: everything between the last sampled token and the next one.
        text: the same, as text.
        content: of the message, control tokens and all; None: it goes on inside the assistant's
            turn.
        documents: what it shows, in order of appearance.
        cut: something was left out or shortened.
    """

    ids: list[int]
    text: str
    content: str | None
    documents: tuple[Document, ...] = ()
    cut: bool = False


class Observer:
    """Writes observations of one trajectory within its token budget."""

    def __init__(
        self,
        protocol: Protocol,
        boundary: ChatBoundary,
        budget: TokenBudget,
        transcript: Transcript,
        max_turns: int,
    ) -> None:
        self._protocol, self._boundary = protocol, boundary
        self._budget, self._transcript, self._max_turns = budget, transcript, max_turns

    def results(
        self, queries: Sequence[str], found: Found, notes: Sequence[str] = ()
    ) -> Observation | None:
        """Search results, cut as far as needed; None where not even a word to the model fits."""
        start = self._transcript.documents_shown + 1

        def write(documents: Found, more: Sequence[str]) -> str:
            shown = still_named(queries, found, documents)
            return self._protocol.observation(*shown, start, [*notes, *more])

        return self._whole(write, found) or self._shortened(write, found) or self.told_to_answer()

    def message(self, message: str | None) -> Observation | None:
        """A message instead of results; None where it does not fit."""

        def write(_: Found, more: Sequence[str]) -> str:
            return self._protocol.error_observation(message, more)

        return self._whole(write, ()) or self.told_to_answer()

    def told_to_answer(self) -> Observation | None:
        """Only that the next turn must be the answer. It may use up some of the reserve."""
        text = self._protocol.error_observation(None, [self._protocol.answer_now])
        made = self._make(text, (), cut=True, again=True)
        room = self._budget.room(self._transcript.episode) - self._budget.least_answer
        return made if len(made.ids) <= room else None

    @property
    def has_room(self) -> bool:
        """Whether any result could be shown; searching is pointless otherwise."""
        told = self.told_to_answer()
        return told is not None and len(told.ids) < self._limit

    @property
    def _limit(self) -> int:
        return self._budget.observation(self._transcript.episode)

    @property
    def _last_turn_next(self) -> bool:
        return len(self._transcript.episode.turns) + 1 >= self._max_turns

    def _whole(self, write: Write, found: Found) -> Observation | None:
        notes = [self._protocol.answer_now] if self._last_turn_next else []
        return self._fitting(write, found, notes, cut=False)

    def _shortened(self, write: Write, found: Found) -> Observation | None:
        """As many characters of the documents as fit, best ranks first."""
        notes = [self._protocol.cut_note]
        if self._last_turn_next or self._limit < self._budget.max_observation:
            notes.append(self._protocol.answer_now)  # the next observation would not fit either
        size = sum(len(d.title) + len(d.text) for documents in found for d in documents)

        def fits(characters: int) -> bool:
            return self._fitting(write, shorten(found, characters), notes, cut=True) is not None

        characters = largest(size, fits)
        shown = shorten(found, characters)
        return self._fitting(write, shown, notes, cut=True) if any(shown) else None

    def _fitting(
        self, write: Write, found: Found, notes: Sequence[str], cut: bool
    ) -> Observation | None:
        made = self._make(write(found, notes), [d for part in found for d in part], cut)
        return made if len(made.ids) <= self._limit else None

    def _make(
        self, content: str, documents: Sequence[Document], cut: bool, again: bool = False
    ) -> Observation:
        """`again`: the same content is asked for every turn of every trajectory."""
        last = self._transcript.last_id
        if self._protocol.inline and not self._boundary.closes(last):
            text = self._boundary.plain(content)
            return Observation(self._boundary.encode(text), text, None, tuple(documents), cut)
        if again:
            ids, text = self._boundary.remembered(content, last)
        else:
            ids, text = self._boundary.observation(content, last_id=last)
        return Observation(list(ids), text, content, tuple(documents), cut)
