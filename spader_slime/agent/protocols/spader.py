"""SPADER's protocol, and its variant that names the source of every string."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from spader_slime.agent.protocols.base import Action, Protocol
from spader_slime.agent.protocols.calls import TAG, clean, limited, read_call
from spader_slime.agent.protocols.tags import Block, find_blocks, outside_think
from spader_slime.algorithms.answers import parse_answer
from spader_slime.episode import Document, TurnKind
from spader_slime.errors import ProtocolError

_SOURCE = re.compile(r"\s*\[\d+\]\s*")
_UNREADABLE = 'The answer can\'t be read. Write <answer>["first", "second"]</answer>.'


class SpaderProtocol(Protocol):
    """`<tool_call>["q1", "q2"]</tool_call>` and `<answer>["a", "b"]</answer>`."""

    no_action = (
        'Your turn holds neither a tool call nor an answer. Write <tool_call>["query"]</tool_call> '
        'or <answer>["first", "second"]</answer>.'
    )

    def parse(self, text: str) -> Action:
        said, thought = outside_think(text)
        blocks = find_blocks(said, TAG, "answer")
        if not blocks:
            return _unfinished_thought(thought)
        if blocks[-1].name == "answer":
            return read_answer(text)
        return _read_calls([block for block in blocks if block.name == TAG])

    def observation(
        self,
        queries: Sequence[str],
        documents: Sequence[Sequence[Document]],
        start_index: int = 1,
        notes: Sequence[str] = (),
    ) -> str:
        parts, index = [], 1
        for query, found in zip(queries, documents, strict=True):
            parts.append(f'Results for "{query}":\n{numbered(found, index)}')
            index += len(found)
        return self.frame([*parts, *notes])


class CitedSpaderProtocol(SpaderProtocol):
    """SPADER's protocol with documents numbered through the whole trajectory.

    A query or an answer may start with the number of the document it was taken from, as in
    `["[5] Oslo"]`, or with `[0]` for the question; the number is removed before searching and
    scoring. Small policies copy far better when they name the source first.
    """

    answer_now = "Answer now."
    cut_note = "Cut."

    def parse(self, text: str) -> Action:
        action = super().parse(text)
        queries = without_sources(action.queries)
        if action.kind is TurnKind.SEARCH and not queries:
            return _malformed("The tool call holds no query.")
        answer = None if action.answer is None else without_sources(action.answer)
        return replace(action, queries=tuple(queries), answer=answer)

    def observation(
        self,
        queries: Sequence[str],
        documents: Sequence[Sequence[Document]],
        start_index: int = 1,
        notes: Sequence[str] = (),
    ) -> str:
        found = [document for shown in documents for document in shown]
        return self.frame([numbered(found, start_index), *notes])

    def frame(self, parts: Sequence[str]) -> str:
        return "\n".join(parts)


def numbered(documents: Sequence[Document], start: int) -> str:
    """`[n] title` and text, one document after the other."""
    if not documents:
        return "No results."
    lines = (f"[{n}] {d.title}\n{d.text}" for n, d in enumerate(documents, start))
    return "\n".join(line.rstrip("\n") for line in lines)


def read_answer(text: str) -> Action:
    """The answer turn; an answer that can't be read has `answer` None and a message."""
    answer = parse_answer(text)
    if answer is None:
        return Action(TurnKind.ANSWER, message=_UNREADABLE)
    return Action(TurnKind.ANSWER, answer=[clean(item) for item in answer])


def _read_calls(blocks: Sequence[Block]) -> Action:
    """Every readable call is kept; the first fault is what the model is told."""
    queries: list[str] = []
    faults: list[str] = []
    for block in blocks:
        try:
            queries += read_call(block.content)
        except ProtocolError as error:
            faults.append(str(error))
    return searching(queries, faults)


def searching(queries: list[str], faults: list[str]) -> Action:
    """A search turn, or a malformed one where no call could be read or there are too many."""
    try:
        limited(queries)
    except ProtocolError as error:
        return _malformed(str(error))
    kind = TurnKind.SEARCH if queries else TurnKind.MALFORMED
    return Action(kind, tuple(queries), len(faults), message=faults[0] if faults else None)


def _unfinished_thought(thought: str) -> Action:
    if find_blocks(thought, TAG):
        return _malformed("The tool call is inside <think>, which was never closed.")
    if find_blocks(thought, "answer"):
        return Action(TurnKind.ANSWER, message=_UNREADABLE)
    return Action(TurnKind.NONE)


def _malformed(message: str) -> Action:
    return Action(TurnKind.MALFORMED, malformed=1, message=message)


def without_sources(items: Sequence[str]) -> list[str]:
    """Queries or answers without the document numbers before them; blank ones go."""
    bare = (_SOURCE.sub("", item, count=1) if _SOURCE.match(item) else item for item in items)
    return [item for item in bare if item.strip()]
