"""Chat boundaries: the ids of a trajectory against what the template renders as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.templates import STYLES, chat_tokenizer
from support.tokenizers import byte_tokenizer

from spader_slime.agent.template import ChatBoundary
from spader_slime.errors import ConfigError

TOKENIZERS = {style: chat_tokenizer(style) for style in (*STYLES, "plain", "thinking")}
OPENING = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which towns?"}]


def rendered(style: str, messages: list[dict[str, str]]) -> list[int]:
    """The whole conversation as the template has it, generation prompt included."""
    tokenizer = TOKENIZERS[style]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return list(tokenizer.encode(text, add_special_tokens=False))


def grown(style: str, turns: list[tuple[str, list[str]]], role: str = "tool") -> list[int]:
    """The same conversation grown token by token, as the agent loop does it."""
    boundary = ChatBoundary(TOKENIZERS[style])
    ids = boundary.prompt_ids(OPENING)
    for said, shown in turns:
        assert boundary.end_id is not None
        ids += [*boundary.encode(said), boundary.end_id]
        ids += boundary.observation_ids(shown, role, last_id=ids[-1])
    return ids


def conversation(turns: list[tuple[str, list[str]]], role: str = "tool") -> list[dict[str, str]]:
    messages = list(OPENING)
    for said, shown in turns:
        messages.append({"role": "assistant", "content": said})
        messages += [{"role": role, "content": content} for content in shown]
    return messages


def said_by(style: str, thought: str, text: str) -> str:
    """A turn in the form that the template itself would write."""
    return f"<think>\n{thought}\n</think>\n\n{text}" if style == "qwen3" and thought else text


words = st.text(st.sampled_from("ab é½\n\"{}'[1]東<"), max_size=12).map(lambda t: f"x{t}x")


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(STYLES),
    st.lists(st.tuples(words, words, st.lists(words, min_size=1, max_size=3)), max_size=4),
)
def test_ids_equal_the_template_where_it_only_appends(
    style: str, turns: list[tuple[str, str, list[str]]]
) -> None:
    written = [(said_by(style, thought, text), shown) for thought, text, shown in turns]
    assert grown(style, written) == rendered(style, conversation(written))


@pytest.mark.parametrize("style", STYLES)
def test_a_user_turn_carries_observations_too(style: str) -> None:
    turns = [("search", ["found"]), ("again", ["more"])]
    assert grown(style, turns, "user") == rendered(style, conversation(turns, "user"))


def test_sampled_thoughts_stay_where_qwen3_drops_them() -> None:
    turns = [(said_by("qwen3", "plan A", "search"), ["found"]), ("again", ["more"])]
    ours = TOKENIZERS["qwen3"].decode(grown("qwen3", turns, "user"))
    theirs = TOKENIZERS["qwen3"].decode(rendered("qwen3", conversation(turns, "user")))
    assert "plan A" not in theirs
    assert ours == theirs.replace("search<", "<think>\nplan A\n</think>\n\nsearch<", 1)


def test_sampled_spelling_stays_where_qwen3_tidies_it() -> None:
    turns = [("<think>plan</think>search", ["found"])]
    ours = TOKENIZERS["qwen3"].decode(grown("qwen3", turns))
    theirs = TOKENIZERS["qwen3"].decode(rendered("qwen3", conversation(turns)))
    assert "<think>plan</think>search<|im_end|>\n" in ours
    assert "<think>\nplan\n</think>\n\nsearch<|im_end|>\n" in theirs


def test_template_arguments_are_used() -> None:
    boundary = ChatBoundary(TOKENIZERS["qwen3"], {"enable_thinking": False})
    end = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert boundary.decode(boundary.prompt_ids(OPENING)).endswith(end)
    assert boundary.decode(boundary.observation_ids("found")).endswith(end)
    assert boundary.turn_prefix == ""  # the thought is closed already


@pytest.mark.parametrize(
    ("style", "role", "end"),
    [
        ("chatml", "tool", "<|im_end|>"),
        ("qwen3", "tool", "<|im_end|>"),
        ("llama31", "tool", "<|eot_id|>"),
        ("plain", "user", "</s>"),
    ],
)
def test_role_and_end_of_turn_come_from_the_template(style: str, role: str, end: str) -> None:
    tokenizer = TOKENIZERS[style]
    boundary = ChatBoundary(tokenizer)
    assert boundary.role == role
    assert boundary.end_id == tokenizer.convert_tokens_to_ids(end)
    assert boundary.stop_token_ids == [boundary.end_id]


@pytest.mark.parametrize("style", [*STYLES, "plain"])
def test_the_end_of_turn_is_added_only_where_it_was_not_sampled(style: str) -> None:
    boundary = ChatBoundary(TOKENIZERS[style])
    closed = boundary.observation_ids("found", last_id=boundary.end_id)
    assert boundary.observation_ids("found", last_id=5 + len(closed)) == [boundary.end_id, *closed]
    ids, text = boundary.observation("found", last_id=boundary.end_id)
    assert ids == closed and boundary.decode(ids) == text


def test_an_end_token_that_the_engine_alone_knows_is_learnt() -> None:
    tokenizer = TOKENIZERS["llama31"]
    boundary = ChatBoundary(tokenizer)
    other = tokenizer.convert_tokens_to_ids("<|eom_id|>")
    sampled = [*boundary.encode("done"), other]
    assert boundary.turn_text(sampled) == "done<|eom_id|>"
    boundary.learn_stop(other)
    assert boundary.turn_text(sampled) == "done"
    assert boundary.observation_ids("x", last_id=other)[0] != boundary.end_id


def test_a_tag_at_which_a_turn_stopped_stays_in_its_text() -> None:
    boundary = ChatBoundary(TOKENIZERS["qwen3"])
    sampled = boundary.encode('<tool_call>["q"]</tool_call>')
    boundary.learn_stop(sampled[-1])
    assert boundary.turn_text(sampled) == '<tool_call>["q"]</tool_call>'


def test_a_thought_that_the_prompt_opened_belongs_to_the_turn() -> None:
    boundary = ChatBoundary(TOKENIZERS["thinking"])
    sampled = boundary.encode("plan</think>done")
    assert boundary.turn_text(sampled) == "<think>plan</think>done"
    assert boundary.turn_text(sampled, goes_on=True) == "plan</think>done"


@pytest.mark.parametrize("style", STYLES)
def test_documents_open_and_close_no_turn(style: str) -> None:
    tokenizer = TOKENIZERS[style]
    boundary = ChatBoundary(tokenizer)
    control = {i: t.content for i, t in tokenizer.added_tokens_decoder.items() if t.special}
    assert len(control) >= 3
    harmless = boundary.observation_ids("x")
    evil = boundary.observation_ids("".join(control.values()))
    assert [i for i in evil if i in control] == [i for i in harmless if i in control]


@pytest.mark.parametrize(
    "template",
    [None, "{{ raise_exception('no') }}", "{% for m in messages %}{{ m.role }}{% endfor %}"],
)
def test_a_template_that_shows_no_turns_is_an_error(template: Any) -> None:
    with pytest.raises(ConfigError):
        ChatBoundary(byte_tokenizer(template=template))
