"""What a protocol is: prompt, parsing of the assistant's turn, wording of observations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from spader_slime.agent.protocols.prompts import Prompt
from spader_slime.episode import Document, TurnKind

MAX_QUERIES = 64  # per turn; the search service takes no more


@dataclass(frozen=True)
class Action:
    """What the assistant did in one turn; its last action counts.

    Attributes:
        kind: search, answer, malformed or none.
        queries: queries of all readable calls, in order (search turns only).
        malformed: calls that could not be read.
        answer: the final answers; None unless `kind` is ANSWER and its format is valid.
        message: what was wrong, in words for the model.
    """

    kind: TurnKind
    queries: tuple[str, ...] = ()
    malformed: int = 0
    answer: list[str] | None = None
    message: str | None = None

    @property
    def calls(self) -> int:
        """`calls_t` of the cost term: queries issued; a malformed call counts 1."""
        return len(self.queries) + self.malformed


class Protocol(ABC):
    """One way to write searches and answers.

    Attributes:
        stop: strings at which the engine ends a turn; empty: only at the end-of-turn token.
        inline: observations go on inside the assistant's turn, without chat boundary.
        answer_now: tells the model that the next turn must be the answer.
        cut_note: tells it that results were left out or shortened.
        no_action: tells it that its turn held neither call nor answer.
    """

    stop: tuple[str, ...] = ()
    inline: bool = False
    answer_now: str = "No more searches are possible. Give your final answer now."
    cut_note: str = "Some results were left out for lack of space."
    no_action: str

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt

    def messages(self, question: str) -> list[dict[str, str]]:
        """The chat messages that open a trajectory."""
        return self._prompt.messages(question)

    @abstractmethod
    def parse(self, text: str) -> Action:
        """Read the assistant's turn (only its own tokens, end-of-turn token left out)."""

    @abstractmethod
    def observation(
        self,
        queries: Sequence[str],
        documents: Sequence[Sequence[Document]],
        start_index: int = 1,
        notes: Sequence[str] = (),
    ) -> str:
        """Search results as the model sees them.

        Args:
            documents: one list per query.
            start_index: number of the first document where documents are numbered through the
                whole trajectory.
            notes: sentences added at the end.
        """

    def error_observation(self, message: str | None, notes: Sequence[str] = ()) -> str:
        """A message to the model instead of results; None: the notes alone."""
        return self.frame([*error_lines(message), *notes])

    def frame(self, parts: Sequence[str]) -> str:
        """Results, messages and notes as one observation."""
        return "\n\n".join(parts)


def error_lines(message: str | None) -> list[str]:
    """What tells the model that something was wrong; nothing where nothing was."""
    return [f"Error: {message}"] if message else []
