"""Built-in prompts, and prompt files that replace them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from spader_slime.errors import ConfigError

QUESTION = "{question}"

SPADER_SYSTEM = """\
You find every correct answer to a question by searching a collection of texts. Questions have \
many answers: some come up with the first search, others only when you search for something more \
specific.

In every turn, think first, inside <think> and </think>. Then do one of two things.

To search, write a JSON list of one or more queries:
<tool_call>["first query", "second query"]</tool_call>
The results come back to you. Use names and clues from them in new queries instead of repeating \
old ones.

When further searches are unlikely to bring anything new, give all answers as a JSON list and \
stop:
<answer>["first answer", "second answer"]</answer>
Write every answer once, as a plain name. List only answers that the results support."""

SEARCH_R1_USER = """\
Find every correct answer to the question below. Think inside <think> and </think> whenever you \
learn something new. If you lack knowledge, search with <search> your query </search>; what is \
found comes back between <information> and </information>. Search as often as you like. When you \
have all answers, write them as a JSON list inside <answer> and </answer>, for example \
<answer>["Oslo", "Bergen"]</answer>.

Question: {question}"""


@dataclass(frozen=True)
class Prompt:
    """Messages in which `{question}` stands for the question."""

    template: tuple[tuple[str, str], ...]

    def messages(self, question: str) -> list[dict[str, str]]:
        return [
            {"role": role, "content": text.replace(QUESTION, question)}
            for role, text in self.template
        ]


SPADER = Prompt((("system", SPADER_SYSTEM), ("user", QUESTION)))
SPADER_CITED = Prompt((("user", QUESTION),))
SEARCH_R1 = Prompt((("user", SEARCH_R1_USER),))


def load_prompt(path: str) -> Prompt:
    """Read a prompt file.

    A `.json` file holds a list of `{"role", "content"}`. Any other file is text: with `{question}`
    in it, it is the user message; without, it is the system message and the question follows.

    Raises:
        ConfigError: unreadable file, wrong shape, or a JSON list that never asks the question.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("agent.prompt_file", path, f"a readable text file ({error})") from error
    if path.endswith(".json"):
        return _from_json(path, text)
    text = text.rstrip("\n")
    if QUESTION in text:
        return Prompt((("user", text),))
    return Prompt((("system", text), ("user", QUESTION)))


def _from_json(path: str, text: str) -> Prompt:
    try:
        template = tuple((str(m["role"]), str(m["content"])) for m in json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            "agent.prompt_file", path, 'a JSON list of {"role", "content"}'
        ) from error
    if not any(QUESTION in content for _, content in template):
        raise ConfigError("agent.prompt_file", path, f"a message that contains {QUESTION}")
    return Prompt(template)
