"""What is said and shown in the agent loop's benchmark, and a tokenizer for it."""

from __future__ import annotations

from typing import Any

from real_text import paragraphs
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

CHARACTERS, DOCUMENTS, VOCABULARY = 2000, 5, 16_000
QUESTION = "Which cities lie on the coast of the country and have more than 10,000 inhabitants?"
SAID = (
    "<think>The list is not complete. The next thing to look for are the towns of the north, "
    "which earlier results did not show.</think>\n"
    '<tool_call>["towns on the northern coast", "largest cities by population"]</tool_call>'
)
TEMPLATE = (
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)


def make_tokenizer() -> Any:
    """Byte-level BPE in the manner of GPT-2, learnt from real text."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(paragraphs(), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>")
    fast.chat_template = TEMPLATE
    return fast


def engine_reply(tokenizer: Any) -> dict[str, Any]:
    """What SGLang sends for a turn that says `SAID`."""
    ids = [*tokenizer.encode(SAID, add_special_tokens=False), tokenizer.eos_token_id]
    meta = {
        "id": "6f1c4d0c7e1d4b0f",
        "finish_reason": {"type": "stop", "matched": tokenizer.eos_token_id},
        "prompt_tokens": 1000,
        "completion_tokens": len(ids),
        "cached_tokens": 900,
        "weight_version": "7",
        "output_token_logprobs": [[-0.123456789 * (i % 7), t, None] for i, t in enumerate(ids)],
    }
    return {"text": SAID, "output_ids": ids, "meta_info": meta}


def search_reply() -> dict[str, Any]:
    """Two queries' documents, 2,000 characters in all."""
    prose = " ".join(paragraphs())
    size = CHARACTERS // DOCUMENTS - len("Title 0")
    documents = [
        {"title": f"Title {i}", "contents": prose[size * i : size * (i + 1)]}
        for i in range(DOCUMENTS)
    ]
    split = DOCUMENTS // 2
    return {
        "result": [{"query": "", "documents": d} for d in (documents[:split], documents[split:])]
    }
