"""Chat boundaries taken from the tokenizer's own chat template.

A trajectory is never rendered twice: the prompt is rendered once, and after each turn only what
stands between two sampled spans is rendered and tokenized. Where the template only ever appends,
the ids equal those of the whole conversation. Where it rewrites history (Qwen3 drops earlier
thinking after a plain user turn), the sampled history is kept, in training and in evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2.exceptions import TemplateError

from spader_slime.errors import ConfigError

Message = Mapping[str, Any]

_TURN = "@assistant-turn@"  # stands for what the assistant sampled
_OPEN_THINK = re.compile(r"<think>\s*\Z")


class ChatBoundary:
    """Tokens around the sampled spans.

    Attributes:
        role: role of observation messages: "tool" where the template shows it, else "user".
        end_id: the token with which the template ends an assistant turn; None if that is text.
        stop_token_ids: tokens that end a turn: `end_id` and the tokenizer's EOS.
        turn_prefix: "<think>" where the generation prompt leaves thinking open, else "": what has
            to be put before a sampled turn to read it.
        opening: the same with the space after it, as the generation prompt has it.
        template_kwargs: the template's variables.

    Raises:
        ConfigError: the tokenizer has no chat template, or one that fails on a plain exchange.
    """

    def __init__(self, tokenizer: Any, template_kwargs: Mapping[str, Any] | None = None) -> None:
        self._tokenizer = tokenizer
        self._backend = getattr(tokenizer, "backend_tokenizer", None)
        self._fast = getattr(self._backend, "encode_batch_fast", None)
        self.template_kwargs = dict(template_kwargs or {})
        self._added = tokenizer.added_tokens_decoder
        self._control = _control_tokens(token.content for token in self._special())
        if not tokenizer.chat_template:
            raise ConfigError("tokenizer", tokenizer.name_or_path, "one with a chat template")
        self.role = "tool" if self._shows("tool") else "user"
        after = self._after_turn(["?"], self.role)
        self.end_id = self._end_id(after)
        stops = [i for i in (self.end_id, tokenizer.eos_token_id) if i is not None]
        self.stop_token_ids = list(dict.fromkeys(stops))
        self._closing = set(self.stop_token_ids)
        self._remembered: dict[tuple[str, int | None], tuple[list[int], str]] = {}
        opened = _OPEN_THINK.search(after)
        self.opening = opened[0] if opened else ""
        self.turn_prefix = self.opening.rstrip()

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of the opening messages and the generation prompt."""
        return self.encode(self._render(messages, generation=True))

    def observation_ids(
        self, content: str | Sequence[str], role: str | None = None, last_id: int | None = None
    ) -> list[int]:
        """Everything between the last sampled token and the next one.

        That is the end of the assistant's turn unless `last_id`, the last sampled token, is one
        already; the observation (several contents: several messages); the generation prompt.
        """
        return self.observation(content, role, last_id)[0]

    def observation(
        self, content: str | Sequence[str], role: str | None = None, last_id: int | None = None
    ) -> tuple[list[int], str]:
        """`observation_ids`, and the text that they stand for."""
        contents = [content] if isinstance(content, str) else list(content)
        text = self._after_turn([self.plain(c) for c in contents], role or self.role)
        ids = self.encode(text)
        if self.closes(last_id) and ids[0] == self.end_id:
            ids, text = ids[1:], text.removeprefix(self.decode(ids[:1]))
        return ids, text

    def remembered(self, content: str, last_id: int | None) -> tuple[list[int], str]:
        """`observation` for one of a few contents that come again and again."""
        key = (content, last_id if self.closes(last_id) else None)
        if key not in self._remembered:
            self._remembered[key] = self.observation(content, last_id=last_id)
        return self._remembered[key]

    def closes(self, token_id: int | None) -> bool:
        """Whether this token ends an assistant turn."""
        return token_id in self._closing

    def learn_stop(self, token_id: int) -> None:
        """Note that the engine ended a turn at this token (its own configuration may list more).

        Only control tokens are noted: a tag such as `</tool_call>` is part of what was written.
        """
        if token_id in self._added and self._added[token_id].special:
            self._closing.add(token_id)

    def turn_text(self, ids: Sequence[int], goes_on: bool = False) -> str:
        """What the assistant wrote, without end-of-turn tokens.

        The thinking prefix is put before it, unless the turn `goes_on` after an inline observation.
        """
        end = len(ids)
        while end and self.closes(ids[end - 1]):
            end -= 1
        return ("" if goes_on else self.turn_prefix) + self.decode(ids[:end])

    def plain(self, text: str) -> str:
        """`text` with control tokens broken up: a document must not open or close a turn."""
        return self._control.sub(lambda m: f"{m[0][0]} {m[0][1:]}", text)

    def encode(self, text: str) -> list[int]:
        """Token ids of `text` as it stands."""
        if self._fast is not None:  # no offsets into the text: a quarter less time
            return list(self._fast([text], add_special_tokens=False)[0].ids)
        if self._backend is not None:
            return list(self._backend.encode(text, add_special_tokens=False).ids)
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of `ids`, special tokens shown."""
        decoder = self._tokenizer if self._backend is None else self._backend
        return str(decoder.decode(list(ids), skip_special_tokens=False))

    def _special(self) -> list[Any]:
        return [token for token in self._added.values() if token.special]

    def _render(self, messages: Sequence[Message], generation: bool) -> str:
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    [dict(m) for m in messages],
                    tokenize=False,
                    add_generation_prompt=generation,
                    **self.template_kwargs,
                )
            )
        except TemplateError as error:
            raise ConfigError("chat template", str(error), "one that renders the chat") from error

    def _after_turn(self, contents: Sequence[str], role: str) -> str:
        """Rendered text from the end of an assistant turn to the start of the next."""
        opening = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _TURN}]
        messages = [*opening, *({"role": role, "content": content} for content in contents)]
        _, found, after = self._render(messages, generation=True).partition(_TURN)
        if not found:
            raise ConfigError("chat template", role, "one that shows the assistant's turns")
        return after

    def _shows(self, role: str) -> bool:
        try:
            return "@probe@" in self._after_turn(["@probe@"], role)
        except ConfigError:
            return False

    def _end_id(self, after: str) -> int | None:
        first = self.encode(after)[0]
        return first if first in self._added else None


def _control_tokens(contents: Any) -> re.Pattern[str]:
    longest_first = sorted((c for c in contents if len(c) > 2), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
