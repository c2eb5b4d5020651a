"""A chat template in the manner of Qwen3's whole one: tools, calls, thinking of its own member."""

from __future__ import annotations

from typing import Any

from support.templates import TAGS
from support.tokenizers import byte_tokenizer

# What follows the last real user turn keeps its thinking, the very last turn has a think block in
# any case; earlier turns have none. Only what stands after the last </think> of a content counts.
QWEN3_TOOLS = """\
{%- macro call(c) -%}
{%- set f = c.function if c.function else c -%}
{{ '<tool_call>\\n{"name": "' + f.name + '", "arguments": ' -}}
{{ f.arguments if f.arguments is string else f.arguments | tojson }}{{ '}\\n</tool_call>' }}
{%- endmacro -%}
{%- set rest = messages -%}
{%- if messages[0].role == 'system' or tools -%}
{{ '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' -%}
{{ messages[0].content }}{%- set rest = messages[1:] -%}{%- endif -%}
{%- if tools -%}
{{ '\\n\\n<tools>' }}{%- for t in tools -%}{{ '\\n' }}{{ t | tojson }}{%- endfor -%}
{{ '\\n</tools>' }}
{%- endif -%}
{{ '<|im_end|>\\n' }}
{%- endif -%}
{%- set ns = namespace(last=rest | length) -%}
{%- for m in rest -%}{%- if m.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- for m in rest -%}
{%- set content = m.content if m.content is string else '' -%}
{%- if m.role == 'tool' -%}
{%- if loop.previtem is not defined or loop.previtem.role != 'tool' -%}{{ '<|im_start|>user' }}
{%- endif -%}
{{ '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
{%- if loop.nextitem is not defined or loop.nextitem.role != 'tool' -%}{{ '<|im_end|>\\n' }}
{%- endif -%}
{%- elif m.role != 'assistant' -%}
{{ '<|im_start|>' + m.role + '\\n' + content + '<|im_end|>\\n' }}
{%- else -%}
{{ '<|im_start|>assistant\\n' }}
{%- set thought = m.reasoning_content if m.reasoning_content is string else '' -%}
{%- if not thought and '</think>' in content -%}
{%- set thought = content.split('</think>')[0].split('<think>')[-1].strip('\\n') -%}
{%- set content = content.split('</think>')[-1].lstrip('\\n') -%}
{%- endif -%}
{%- if loop.index0 > ns.last and (loop.last or thought) -%}
{{ '<think>\\n' + thought + '\\n</think>\\n\\n' }}
{%- endif -%}
{{ content }}
{%- for c in m.tool_calls or [] -%}
{{ '\\n' if content or not loop.first }}{{ call(c) }}
{%- endfor -%}
{{ '<|im_end|>\\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"""


def tool_tokenizer() -> Any:
    """A byte-level tokenizer that speaks it."""
    return byte_tokenizer(words=TAGS, template=QWEN3_TOOLS)


TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {}}} for name in ("look", "pay")
]


def call(name: str, arguments: Any, number: str | None = None) -> dict[str, Any]:
    """A tool call as chats hold it."""
    identity = {"id": number} if number else {}
    return {**identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def said(role: str, content: str | None = "", **more: Any) -> dict[str, Any]:
    """A message."""
    return {"role": role, "content": content, **more}


def tau_chat() -> list[dict[str, Any]]:
    """Two user turns, two calls at once, thinking in a member, in the text, and none."""
    calls = [call("look", {"day": "é"}, "a"), call("pay", '{"sum": 2}', "b")]
    return [
        said("system", "Be kind."),
        said("user", "Book it."),
        said("assistant", None, reasoning_content="First look.", tool_calls=calls),
        said("tool", "free", tool_call_id="a"),
        said("tool", "paid", tool_call_id="b"),
        said("assistant", "Done."),
        said("user", "Thanks."),
        said("assistant", "<think>\nEnd.\n</think>\n\nBye."),
    ]
