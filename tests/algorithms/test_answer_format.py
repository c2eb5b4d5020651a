from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spader_slime.algorithms.answers import parse_answer
from spader_slime.algorithms.lists import read_list

plain = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="<>"), max_size=12)
nested = st.recursive(
    plain | st.integers() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=8,
)


def flat(value: object) -> list[str]:
    if isinstance(value, list):
        return [text for item in value for text in flat(item)]
    if value is None or isinstance(value, bool):
        return []
    return [str(value)] if str(value).strip() else []


@settings(max_examples=40)
@given(st.lists(nested, max_size=3), st.booleans())
def test_every_json_list_is_read(value: list[object], escaped: bool) -> None:
    assert read_list(json.dumps(value, ensure_ascii=escaped)) == flat(value)


@settings(max_examples=60)
@given(st.lists(plain.filter(str.strip), max_size=5))
def test_every_python_list_is_read(value: list[str]) -> None:
    printable = [text for text in value if text.isprintable()]
    assert read_list(repr(printable)) == printable


@given(st.lists(plain, max_size=4), st.sampled_from(["", "<think>so</think>", "Well. "]))
def test_an_answer_comes_back(value: list[str], before: str) -> None:
    text = f"{before}<answer>{json.dumps(value)}</answer>"
    want = [item for item in value if item.strip()]
    assert parse_answer(text) == parse_answer(text + "<|im_end|>\n") == want


@given(st.text(st.sampled_from('<>/answerthik[]",{}\\x '), max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    for form in (text, f"<answer>{text}</answer>"):
        answer = parse_answer(form)
        assert answer is None or all(isinstance(item, str) and item for item in answer)


@pytest.mark.parametrize(
    "text",
    ['["a" "b"]', '["a",,"b"]', '[,"a"]', '["a"', '"a"]', '["a"]]', "[a, b]", '{"a": 1}', "[1 2]"],
)
def test_what_only_looks_like_a_list_is_invalid(text: str) -> None:
    assert read_list(text) is None
    if text.startswith(("[", "{")):
        assert parse_answer(f"<answer>{text}</answer>") is None


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("<answer>Oslo, Norway</answer>", ["Oslo, Norway"]),
        ("<answer> \n </answer>", None),
        ("<ANSWER>[]</ANSWER>", None),
        ('<answer>["a"]</answer></s>', ["a"]),
        ('<answer>["a"]</answer><|eot_id|>', ["a"]),
        ('<answer>["a"]</answer> and more', None),
        ('</think><answer>["a"]</answer>', None),
        ('<think>x</think>y<think>z</think><answer>["a"]</answer>', ["a"]),
        ('<answer><think>x</think>["a"]</answer>', None),
        ("", None),
    ],
)
def test_examples(text: str, want: list[str] | None) -> None:
    assert parse_answer(text) == want


@pytest.mark.parametrize("piece", ["[", "\\", "<answer>", "[1,", "<think>", '["a",', "```"])
def test_a_flood_of_one_piece_is_invalid(piece: str) -> None:
    """A reader that backtracks would not come to an end here."""
    assert parse_answer(f'<answer>["{piece * 50_000}</answer>') is None
