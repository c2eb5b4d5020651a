"""Chat templates in the manner of Qwen3, Llama 3.1 and others, with tokenizers that speak them."""

from __future__ import annotations

from typing import Any

from support.tokenizers import SPECIAL, TEMPLATE, byte_tokenizer

TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

# Thinking before the last real user turn is dropped; what follows it keeps its thinking. Results of
# tools are user turns, several in a row share one.
QWEN3 = """\
{%- macro said(text) -%}
{%- if '</think>' in text -%}{{ text.split('</think>')[-1].lstrip('\\n') }}
{%- else -%}{{ text }}{%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(last=0) -%}
{%- for m in messages -%}
{%- if m.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- for m in messages -%}
{%- if m.role == 'tool' -%}
{%- if loop.previtem is not defined or loop.previtem.role != 'tool' -%}{{ '<|im_start|>user' }}
{%- endif -%}
{{ '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
{%- if loop.nextitem is not defined or loop.nextitem.role != 'tool' -%}{{ '<|im_end|>\\n' }}
{%- endif -%}
{%- else -%}
{{ '<|im_start|>' + m.role + '\\n' }}
{%- if m.role != 'assistant' -%}{{ m.content }}
{%- elif loop.index0 > ns.last and '</think>' in m.content -%}
{%- set thought = m.content.split('</think>')[0].split('<think>')[-1].strip('\\n') -%}
{{ '<think>\\n' + thought + '\\n</think>\\n\\n' + said(m.content) }}
{%- else -%}{{ said(m.content) }}{%- endif -%}
{{ '<|im_end|>\\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and not enable_thinking -%}{{ '<think>\\n\\n</think>\\n\\n' }}
{%- endif -%}
{%- endif -%}"""

# The beginning-of-text token once, contents trimmed, results of tools as JSON under "ipython".
LLAMA31 = """\
{{- '<|begin_of_text|>' -}}
{%- if messages[0].role == 'system' -%}
{%- set system = messages[0].content | trim -%}{%- set messages = messages[1:] -%}
{%- else -%}{%- set system = '' -%}{%- endif -%}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nToday: a day.\\n\\n' + system -}}
{{- '<|eot_id|>' -}}
{%- for m in messages -%}
{%- if m.role == 'tool' -%}
{{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + (m.content | tojson) + '<|eot_id|>' -}}
{%- else -%}
{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + (m.content | trim) -}}
{{- '<|eot_id|>' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
{%- endif -%}"""

LLAMA_SPECIAL = [
    "<|end_of_text|>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|eom_id|>",
]

# Knows users and assistants only; a turn ends with the end-of-text token.
PLAIN = """\
{%- for m in messages -%}
{%- if m.role == 'user' -%}{{ '[INST]' + m.content + '[/INST]' }}
{%- elif m.role == 'assistant' -%}{{ m.content + '</s>' }}
{%- else -%}{{ raise_exception('unknown role') }}{%- endif -%}
{%- endfor -%}"""

# The generation prompt opens the thinking.
THINKING = TEMPLATE.replace("assistant\n' }}{%- endif", "assistant\n<think>\n' }}{%- endif")

STYLES = ("chatml", "qwen3", "llama31")


def chat_tokenizer(style: str) -> Any:
    """A byte-level tokenizer with the template and control tokens of `style`."""
    if style == "qwen3":
        return byte_tokenizer(words=TAGS, template=QWEN3)
    if style == "llama31":
        return byte_tokenizer(special=LLAMA_SPECIAL, eos="<|eot_id|>", template=LLAMA31)
    if style == "plain":
        return byte_tokenizer(special=["<pad>", "</s>"], eos="</s>", template=PLAIN)
    if style == "thinking":
        return byte_tokenizer(words=TAGS, template=THINKING)
    return byte_tokenizer(special=SPECIAL)
