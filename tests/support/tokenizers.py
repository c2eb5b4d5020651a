"""A byte-level tokenizer with a ChatML template (and a tool role), made on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)


def byte_tokenizer(
    folder: Path | None = None,
    special: list[str] = SPECIAL,
    words: tuple[str, ...] = (),
    eos: str = "<|im_end|>",
    template: str | None = TEMPLATE,
) -> Any:
    """Every byte is a token, so that any text survives; saved to `folder` when given.

    `special` tokens are control tokens, `words` plain ones that are a token each.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*special, *alphabet])}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(special)
    core.add_tokens(list(words))
    fast = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=eos, pad_token=special[0])
    fast.chat_template = template
    if folder is not None:
        fast.save_pretrained(folder)
    return fast
