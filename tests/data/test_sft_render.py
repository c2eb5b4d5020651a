"""Which tokens a chat becomes, and which of them are learned."""

from __future__ import annotations

from typing import Any

import pytest
from support.sft_template import TOOLS, call, said, tau_chat, tool_tokenizer
from support.templates import STYLES, chat_tokenizer

from spader_slime.agent.template import ChatBoundary
from spader_slime.data.question import BadRecord, LeftOut
from spader_slime.data.sft_messages import read_chat
from spader_slime.data.sft_render import ChatRenderer, Rendered

TOKENIZER = tool_tokenizer()
RENDERER = ChatRenderer(TOKENIZER)
SEARCH_R1 = (
    "<think>a</think><search>q</search>\n\n<information>d1</information>\n\n"
    "<think>b</think><search>p</search>\n\n<information>d2</information>\n\n<answer>z</answer>"
)


def learned(rendered: Rendered) -> list[str]:
    """Texts of the stretches inside the loss."""
    texts, before = [], 0
    for token, inside in zip(rendered.ids, rendered.mask, strict=True):
        if inside and not before:
            texts.append([token])
        elif inside:
            texts[-1].append(token)
        before = inside
    return [TOKENIZER.decode(ids) for ids in texts]


def shown(rendered: Rendered) -> str:
    return str(TOKENIZER.decode(rendered.ids))


def test_only_what_the_assistant_says_is_learned() -> None:
    rendered = RENDERER.render(read_chat({"messages": tau_chat()}).messages, TOOLS)
    first, second, third = learned(rendered)
    assert first.startswith("<think>\nFirst look.\n</think>\n\n<tool_call>\n")
    assert first.endswith('"arguments": {"sum": 2}}\n</tool_call><|im_end|>')
    assert second == "<think>\n\n</think>\n\nDone.<|im_end|>"
    assert third == "<think>\nEnd.\n</think>\n\nBye.<|im_end|>"
    assert rendered.mask[-rendered.response_length] == 1
    assert sum(rendered.mask[: -rendered.response_length]) == 0


def test_consecutive_tool_messages_share_a_turn() -> None:
    text = shown(RENDERER.render(read_chat({"messages": tau_chat()}).messages))
    responses = "<tool_response>\nfree\n</tool_response>\n<tool_response>\npaid\n</tool_response>"
    assert f"<|im_start|>user\n{responses}<|im_end|>\n<|im_start|>assistant\n" in text


def test_one_user_turn_is_what_the_whole_template_writes() -> None:
    """Where the template rewrites no history, nothing is other than in one piece."""
    calls = [call("look", {"day": 1})]
    messages = [
        said("user", "q"), said("assistant", reasoning_content="r", tool_calls=calls),
        said("tool", "free"), said("assistant", "<think>\ns\n</think>\n\nDone."),
    ]  # fmt: skip
    whole = TOKENIZER.apply_chat_template(messages, tools=TOOLS, tokenize=False)
    assert shown(RENDERER.render(messages, TOOLS)) == whole


@pytest.mark.parametrize("style", STYLES)
def test_the_tokens_are_those_an_agent_meets(style: str) -> None:
    tokenizer = chat_tokenizer(style)
    boundary, renderer = ChatBoundary(tokenizer), ChatRenderer(tokenizer)
    messages = [said("user", "q"), said("assistant", "a"), said("user", "r"), said("user", "s")]
    messages = [*messages[:3], said("assistant", "b")]
    met = [
        *boundary.prompt_ids(messages[:1]), *boundary.encode("a"),
        *boundary.observation_ids("r", role="user"), *boundary.encode("b"), boundary.end_id,
    ]  # fmt: skip
    rendered = renderer.render(messages)
    assert rendered.ids[: len(met)] == met
    assert sum(rendered.mask) == len("ab") + 2 and not any(rendered.mask[len(met) :])


def test_observations_inside_a_turn_are_not_learned() -> None:
    messages = [said("user", "q"), said("assistant", SEARCH_R1)]
    rendered = RENDERER.render(messages, observation_tag="information")
    assert learned(rendered) == [
        "<think>a</think><search>q</search>",
        "<think>b</think><search>p</search>",
        "<answer>z</answer><|im_end|>",
    ]
    assert SEARCH_R1 in shown(rendered)  # word for word


def test_without_the_tag_the_template_would_drop_half_of_it() -> None:
    with pytest.raises(LeftOut, match="text that the template drops"):
        RENDERER.render([said("user", "q"), said("assistant", SEARCH_R1)])


def test_a_turn_that_is_shown_only() -> None:
    turns = [said("user", "q"), said("assistant", "no", step_loss_mask=0)]
    rendered = RENDERER.render([*turns, said("user", "r"), said("assistant", "yes")])
    assert learned(rendered) == ["<think>\n\n</think>\n\nyes<|im_end|>"]


@pytest.mark.parametrize(
    ("reason", "style", "messages", "tools"),
    [
        ("control token in a message", "qwen3", [said("user", "<|im_end|>")], []),
        ("observation that is never closed", "qwen3", [], []),
        ("template shows no tools", "chatml", [], TOOLS),
        ("template refuses the chat", "plain", [said("system", "s")], []),
    ],
)
def test_what_can_not_be_rendered(
    reason: str, style: str, messages: list[Any], tools: list[Any]
) -> None:
    answer = said("assistant", "<information>" if "closed" in reason else "a")
    with pytest.raises(BadRecord, match=reason):
        ChatRenderer(chat_tokenizer(style)).render(
            [*(messages or [said("user", "q")]), answer], tools, "information"
        )


def test_calls_that_a_template_does_not_show() -> None:
    turn = said("assistant", "x", tool_calls=[call("look", {})])
    with pytest.raises(LeftOut, match="text that the template drops: 'look'"):
        ChatRenderer(chat_tokenizer("chatml")).render([said("user", "q"), turn])
