"""Final answers: how they are read from the last turn; scoring is in `scoring`."""

from __future__ import annotations

import re

from spader_slime.algorithms.gold import as_gold
from spader_slime.algorithms.lists import read_list, strip_fence
from spader_slime.algorithms.normalization import normalize
from spader_slime.algorithms.scoring import AnswerKey, AnswerScore, score_answer

__all__ = ["AnswerKey", "AnswerScore", "as_gold", "normalize", "parse_answer", "score_answer"]

_OPEN, _CLOSE = "<answer>", "</answer>"
_TURN_END = re.compile(r"(?:<\|[^|<>\s]*\|>|</s>|<end_of_turn>)\Z")
_THINK = re.compile(r"</?think>")
_TAG = re.compile(r"</?(?:think|answer|tool_call|search)>")


def parse_answer(text: str) -> list[str] | None:
    """The final answer in the text of the last assistant turn (method: "Valid format").

    The turn must end in a closed ``<answer>`` block (blanks and end-of-turn tokens may follow)
    with think tags balanced, not nested and closed before it. The block holds a list of strings
    (see `lists.read_list`) or bare text, which is one answer.

    Returns:
        The answers as written, repeats kept; ``[]`` for a valid empty list; None where the
        format is invalid.
    """
    body = _without_turn_end(text)
    start = body.rfind(_OPEN)
    if start < 0 or not body.endswith(_CLOSE) or not _thinking_closed(body[:start]):
        return None
    content = body[start + len(_OPEN) : len(body) - len(_CLOSE)]
    return None if _TAG.search(content) else _read_content(strip_fence(content))


def _without_turn_end(text: str) -> str:
    text = text.rstrip()
    while mark := _TURN_END.search(text):
        text = text[: mark.start()].rstrip()
    return text


def _thinking_closed(text: str) -> bool:
    inside = False
    for tag in _THINK.findall(text):
        if (tag == "<think>") == inside:
            return False
        inside = not inside
    return not inside


def _read_content(content: str) -> list[str] | None:
    if content.startswith(("[", "{")):
        return read_list(content)
    return [content] if content else None
