"""A chat as token ids and loss mask: each turn as the chat template writes the newest one.

The tokens are those that an agent meets which never renders a chat twice: the prompt, then turn by
turn what the assistant writes and what the template puts between two turns. Earlier thinking stays
where it was, consecutive tool messages share what the template makes them share, and only the
assistant's tokens with the token that ends the turn are learned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spader_slime.data.question import BadRecord, LeftOut
from spader_slime.data.sft_calls import tool_names
from spader_slime.data.sft_messages import Message, is_learned

_MARK = "@assistant-turn@"
_QUESTION: Message = {"role": "user", "content": "?"}


@dataclass(frozen=True)
class Piece:
    """A stretch of text whose tokens are all learned, or all not."""

    text: str
    learned: bool


@dataclass(frozen=True)
class Rendered:
    """A chat as the trainer sees it.

    Attributes:
        ids: token ids.
        mask: 1 for tokens inside the loss, as long as `ids`.
        pieces: the same as text.
    """

    ids: list[int]
    mask: list[int]
    pieces: tuple[Piece, ...]

    @property
    def response_length(self) -> int:
        """Tokens from the first learned one on."""
        return len(self.ids) - self.mask.index(1)


class ChatRenderer:
    """Renders with a tokenizer's own chat template.

    Raises:
        BadRecord: the template can't render a plain exchange.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.added_tokens_decoder.values()
        control = sorted((t.content for t in added if t.special), key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, control)) or r"(?!)")
        self._opening = self._text([_QUESTION], generation=True)
        self._end = self._after([])  # what the template puts after a last turn
        self._end_token = found[0] if (found := self._control.match(self._end)) else self._end

    def render(
        self, messages: Sequence[Message], tools: Sequence[Any] = (), observation_tag: str = ""
    ) -> Rendered:
        """Token ids and mask of a checked chat (`sft_messages.Chat`).

        Args:
            observation_tag: blocks of this tag inside assistant turns are observations: not
                learned; such a turn is taken as it is written, not through the template.

        Raises:
            BadRecord: the template refuses the chat, or a message holds a control token.
            LeftOut: the template drops text of an assistant turn.
        """
        pieces = tuple(p for p in self._pieces(messages, tools, observation_tag) if p.text)
        encoded = [self._tokenizer(p.text, add_special_tokens=False)["input_ids"] for p in pieces]
        ids = [token for part in encoded for token in part]
        mask = [int(p.learned) for p, part in zip(pieces, encoded, strict=True) for _ in part]
        return Rendered(ids, mask, pieces)

    def _pieces(
        self, messages: Sequence[Message], tools: Sequence[Any], tag: str
    ) -> Iterator[Piece]:
        self._refuse_control_tokens(messages)
        turns = [n for n, message in enumerate(messages) if message["role"] == "assistant"]
        prompt = self._text(messages[: turns[0]], tools, generation=True)
        if not all(name in prompt for name in tool_names(tools)):
            raise BadRecord("template shows no tools")
        yield Piece(prompt, False)
        for n, following in zip(turns, [*turns[1:], None], strict=True):
            learned = is_learned(messages[n])
            for piece in self._turn(messages[n], tag):
                yield Piece(piece.text, piece.learned and learned)
            after = self._after(messages[n + 1 : following]) if following else self._end
            yield Piece(self._end_token, learned)
            yield Piece(after.removeprefix(self._end_token), False)

    def _turn(self, message: Message, tag: str) -> list[Piece]:
        content = message["content"] or ""
        if tag and f"<{tag}>" in content:
            return inline_pieces(content, tag)
        whole = self._text([_QUESTION, message])
        if not whole.startswith(self._opening) or not whole.endswith(self._end):
            raise BadRecord("template writes turns otherwise than its generation prompt begins")
        text = whole[len(self._opening) : len(whole) - len(self._end)]
        for part in _said(message):
            if _squeezed(part) not in _squeezed(text):
                raise LeftOut("text that the template drops", f"{part!r:.60}")
        return [Piece(text, True)]

    def _after(self, between: Sequence[Message]) -> str:
        """From the end of a turn to the start of the next; without `between`, after the last."""
        chat = [_QUESTION, {"role": "assistant", "content": _MARK}, *between]
        _, found, after = self._text(chat, generation=bool(between)).partition(_MARK)
        if not found:
            raise BadRecord("template does not show the assistant's turns")
        return after

    def _text(
        self, messages: Sequence[Message], tools: Sequence[Any] = (), generation: bool = False
    ) -> str:
        from jinja2.exceptions import TemplateError

        try:
            return str(
                self._tokenizer.apply_chat_template(
                    [dict(message) for message in messages],
                    tools=list(tools) or None,
                    tokenize=False,
                    add_generation_prompt=generation,
                )
            )
        except (TemplateError, TypeError, ValueError) as error:
            raise BadRecord("template refuses the chat", f"{error!s:.100}") from error

    def _refuse_control_tokens(self, messages: Sequence[Message]) -> None:
        for number, message in enumerate(messages, 1):
            found = self._control.search(str({**message, "role": ""}))
            if found:
                raise BadRecord("control token in a message", f"message {number}: {found[0]}")


def inline_pieces(text: str, tag: str) -> list[Piece]:
    """A turn as written, cut at its observations; the blank space around them is theirs.

    Raises:
        BadRecord: a block that is never closed.
    """
    parts = re.split(rf"(\s*<{re.escape(tag)}>.*?</{re.escape(tag)}>\s*)", text, flags=re.DOTALL)
    if any(f"<{tag}>" in part for part in parts[::2]):
        raise BadRecord("observation that is never closed", f"<{tag}>")
    return [Piece(part, n % 2 == 0) for n, part in enumerate(parts)]


def _said(message: Message) -> Iterator[str]:
    yield message.get("reasoning_content") or ""
    yield message["content"] or ""
    yield from (call["function"]["name"] for call in message.get("tool_calls") or ())


def _squeezed(text: str) -> str:
    return "".join(text.split())
