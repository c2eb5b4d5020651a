"""Search-R1's protocol: `<search>`, `<information>`, and an answer, all in one assistant turn."""

from __future__ import annotations

from collections.abc import Sequence

from spader_slime.agent.protocols.base import Action, Protocol
from spader_slime.agent.protocols.calls import clean
from spader_slime.agent.protocols.spader import read_answer, searching
from spader_slime.agent.protocols.tags import Block, find_blocks, outside_think
from spader_slime.episode import Document, TurnKind

_EMPTY = "A search needs a query: <search> your query </search>."
_OPEN = "The search was never closed: <search> your query </search>."


class SearchR1Protocol(Protocol):
    """One query per `<search>`; a bare-text answer is one answer, a JSON list is many."""

    stop = ("</search>", "</answer>")
    inline = True
    no_action = (
        "Your text holds neither a search nor an answer. Write <search> your query </search> or "
        "<answer> your answer </answer>."
    )

    def parse(self, text: str) -> Action:
        said, thought = outside_think(text)
        blocks = find_blocks(said, "search", "answer")
        if not blocks and thought:
            blocks = find_blocks(thought, "search", "answer")
            return _hidden(blocks) if blocks else Action(TurnKind.NONE)
        if not blocks:
            return Action(TurnKind.NONE)
        if blocks[-1].name == "answer":
            return read_answer(text)
        return _read_searches([block for block in blocks if block.name == "search"])

    def observation(
        self,
        queries: Sequence[str],
        documents: Sequence[Sequence[Document]],
        start_index: int = 1,
        notes: Sequence[str] = (),
    ) -> str:
        found = [document for shown in documents for document in shown]
        lines = [f'Doc {n}(Title: "{d.title}") {d.text}' for n, d in enumerate(found, 1)]
        return self.frame([*(lines or ["No results."]), *notes])

    def frame(self, parts: Sequence[str]) -> str:
        return "\n\n<information>" + "\n".join(parts) + "</information>\n\n"


def _read_searches(blocks: Sequence[Block]) -> Action:
    queries = [clean(b.content.strip()) for b in blocks if b.content and b.content.strip()]
    faults = [_fault(b) for b in blocks if not (b.content and b.content.strip())]
    return searching(queries, faults)


def _fault(block: Block) -> str:
    return _OPEN if block.content is None else _EMPTY


def _hidden(blocks: Sequence[Block]) -> Action:
    if blocks[-1].name == "answer":
        return Action(TurnKind.ANSWER, message="The answer is inside <think>.")
    message = "The search is inside <think>, which was never closed."
    return Action(TurnKind.MALFORMED, malformed=1, message=message)
