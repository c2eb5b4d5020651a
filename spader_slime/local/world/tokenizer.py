"""A tokenizer for a world: one token per name, one per piece of structure, bytes for the rest.

A Unigram model without pre-tokenization: the text is cut into as few pieces as possible. Names
carry the space before them (` Munich`), so a name is one token wherever a space precedes it, as
in `["[1] Munich", "[2] Augsburg"]`. Anything else falls back to letters, then to UTF-8 bytes:
every text can be encoded, and decoding gives it back exactly.
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders
from tokenizers.models import Unigram
from transformers import PreTrainedTokenizerFast

UNKNOWN, PAD, START, END = "<unk>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TAGS = [
    f"<{slash}{tag}>"
    for tag in ("think", "tool_call", "answer", "search", "information")
    for slash in ("", "/")
]
STRUCTURE = ["\n", "\n\n", '["', '", "', '"]', "[]", "system\n", "user\n", "assistant\n", "tool\n"]

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_PIECE, _LETTER, _BYTE = -1.0, -20.0, -1000.0  # scores; the best cut has the highest sum


def make_tokenizer(
    names: Iterable[str],
    phrases: Iterable[str],
    sources: int = 64,
    notes: Iterable[str] = (),
) -> PreTrainedTokenizerFast:
    """A fast tokenizer with a ChatML template that knows the role `tool`.

    Args:
        names: each becomes one token, with the space before it.
        phrases: fixed wording, one token each, as it stands.
        sources: `[0]`, which is the question, to `[sources]` are one token each.
        notes: wording of messages, one token each, last in the vocabulary.
    """
    vocabulary = _vocabulary(names, phrases, sources, notes)
    model = Unigram(list(vocabulary.items()), unk_id=0, byte_fallback=True)
    tokenizer = Tokenizer(model)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([_special(token) for token in (UNKNOWN, PAD, START, END)])
    return _for_transformers(tokenizer)


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Like `save_pretrained`, with the class name that transformers 4 and 5 both know."""
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = {**json.loads(path.read_text("utf-8")), "tokenizer_class": "PreTrainedTokenizerFast"}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _vocabulary(
    names: Iterable[str], phrases: Iterable[str], sources: int, notes: Iterable[str]
) -> dict[str, float]:
    """Pieces in id order with their scores; the first mention of a piece counts."""
    numbers = [f"[{n}]" for n in range(sources + 1)]
    fixed = [UNKNOWN, PAD, START, END, *TAGS, *STRUCTURE, *numbers, *phrases]
    scores = dict.fromkeys(fixed, _PIECE)
    letters = string.ascii_letters + string.digits + string.punctuation + " "
    named = (f" {name}" for name in names)
    scored = ((letters, _LETTER), (_bytes(), _BYTE), (named, _PIECE), (notes, _PIECE))
    for pieces, score in scored:
        for piece in pieces:
            scores.setdefault(piece, score)
    return scores


def _bytes() -> list[str]:
    return [f"<0x{byte:02X}>" for byte in range(256)]


def _special(token: str) -> AddedToken:
    return AddedToken(token, special=True, normalized=False)


def _for_transformers(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    settings: dict[str, Any] = {"unk_token": UNKNOWN, "pad_token": PAD, "eos_token": END}
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        clean_up_tokenization_spaces=False,
        model_max_length=1_000_000,
        **settings,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped
