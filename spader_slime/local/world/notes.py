"""What the search protocol tells the policy besides documents, in pieces that get tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spader_slime.agent.protocols.prompts import SPADER_CITED
from spader_slime.agent.protocols.spader import CitedSpaderProtocol

MALFORMED = (  # turns that bring forth every message of the protocol
    "<tool_call>",
    "<tool_call>oslo</tool_call>",
    "<tool_call>[]</tool_call>",
    '<tool_call>["[1]"]</tool_call>',
    "<think><tool_call>",
    "<answer>[</answer>",
)
_STRUCTURE = re.compile(r'</?\w+>|\["|", "|"\]|\n')


def note_pieces() -> list[str]:
    """The wording of notes and messages, cut where the vocabulary has tokens of its own.

    No piece starts with a space, which is what names do.
    """
    spoken = (piece.strip() for text in protocol_notes() for piece in _STRUCTURE.split(text))
    return list(dict.fromkeys(piece for piece in spoken if len(piece) > 1))


def protocol_notes() -> Iterator[str]:
    """Every note and message of the protocol `spader_cited`, as it stands in an observation."""
    protocol = CitedSpaderProtocol(SPADER_CITED)
    yield from (protocol.answer_now, protocol.cut_note, protocol.observation([""], [[]]))
    for turn in MALFORMED:
        yield protocol.error_observation(protocol.parse(turn).message)
    yield protocol.error_observation(protocol.no_action)
