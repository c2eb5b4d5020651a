from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from spader_slime.local.world.build import WorldFiles
from spader_slime.local.world.notes import note_pieces, protocol_notes
from spader_slime.local.world.small import small_world
from spader_slime.local.world.tokenizer import make_tokenizer

NAMES = ["Munich", "Bavaria", "Germany", "San", "San Marino", "Sant Julià de Lòria", "St. John's"]
PHRASES = ["Which cities are in", "?", "In", ",", ", near", "."]
TOKENIZER = make_tokenizer(NAMES, PHRASES)


def pieces(text: str, tokenizer: Any = TOKENIZER) -> list[str]:
    ids = tokenizer.encode(text, add_special_tokens=False)
    return list(tokenizer.convert_ids_to_tokens(ids))


def decoded(text: str, tokenizer: Any = TOKENIZER) -> str:
    ids = tokenizer.encode(text, add_special_tokens=False)
    return str(tokenizer.decode(ids, skip_special_tokens=False))


def test_one_token_per_name_and_piece_of_structure() -> None:
    assert pieces('["[5] Bavaria Germany"]') == ['["', "[5]", " Bavaria", " Germany", '"]']
    assert pieces('<answer>["[1] Munich", "[64] San Marino"]</answer>') == [
        *("<answer>", '["', "[1]", " Munich", '", "', "[64]", " San Marino", '"]', "</answer>")
    ]
    assert pieces("[0] Munich\nIn Bavaria, Germany, near San.") == [
        *("[0]", " Munich", "\n", "In", " Bavaria", ",", " Germany", ", near", " San", ".")
    ]


def test_every_name_of_the_world_is_one_token(small_files: WorldFiles) -> None:
    tokenizer = AutoTokenizer.from_pretrained(small_files.tokenizer)
    names = small_world(0).names
    assert [name for name in names if pieces(f" {name}", tokenizer) != [f" {name}"]] == []
    assert len(tokenizer) < 3500


def test_passages_and_questions_take_a_dozen_tokens(small_files: WorldFiles) -> None:
    tokenizer = AutoTokenizer.from_pretrained(small_files.tokenizer)
    for path, longest in ((small_files.corpus, 9), (small_files.questions("test"), 3)):
        for line in path.open(encoding="utf-8"):
            row = json.loads(line)
            text = row["meta"]["content"] if "meta" in row else row["question_text"]
            assert len(pieces(text, tokenizer)) <= longest
            assert decoded(text, tokenizer) == text


def test_notes_of_the_protocol_are_short(small_files: WorldFiles) -> None:
    tokenizer = AutoTokenizer.from_pretrained(small_files.tokenizer)
    notes = list(protocol_notes())
    for note in notes[:3]:
        assert pieces(f".\n{note}", tokenizer) == [".", "\n", note]
    for note in notes:
        assert len(pieces(note, tokenizer)) <= 20 and decoded(note, tokenizer) == note
    assert [note for note in note_pieces() if note.startswith(" ")] == []


def test_notes_come_last_in_the_vocabulary() -> None:
    longer = make_tokenizer(NAMES, PHRASES, notes=["Cut.", "Answer now."])
    assert longer.get_vocab() == {
        **TOKENIZER.get_vocab(),
        "Cut.": len(TOKENIZER),
        "Answer now.": len(TOKENIZER) + 1,
    }


def test_template_with_a_tool_role() -> None:
    messages = [
        {"role": "user", "content": "Which cities are in Germany?"},
        {"role": "assistant", "content": '<tool_call>["[0] Germany"]</tool_call>'},
        {"role": "tool", "content": "[1] Munich"},
    ]
    text = TOKENIZER.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert pieces(text)[:9] == [
        *("<|im_start|>", "user\n", "Which cities are in", " Germany", "?"),
        *("<|im_end|>", "\n", "<|im_start|>", "assistant\n"),
    ]
    assert pieces(text)[-8:] == [
        *("<|im_start|>", "tool\n", "[1]", " Munich", "<|im_end|>", "\n"),
        *("<|im_start|>", "assistant\n"),
    ]
    assert decoded(text) == text


def test_a_longer_unknown_name_is_spelled_out() -> None:
    assert decoded(" Santander San") == " Santander San"
    assert pieces(" San Marinos")[-1] == "s"


@pytest.mark.parametrize("text", ["", "<0x41>", "北京 🙂", "\x00\t\r\n", "  a  ", "<unk>", "[65]"])
def test_odd_texts_come_back(text: str) -> None:
    assert decoded(text) == text


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    assert decoded(text) == text


@given(st.lists(st.tuples(st.integers(0, 64), st.sampled_from(NAMES)), min_size=1))
def test_cited_lists_take_three_tokens_an_item(items: list[tuple[int, str]]) -> None:
    text = json.dumps([f"[{n}] {name}" for n, name in items], ensure_ascii=False)
    assert len(pieces(text)) == 3 * len(items) + 1
    assert decoded(text) == text


def test_saved_and_loaded_it_is_the_same(small_files: WorldFiles) -> None:
    tokenizer = AutoTokenizer.from_pretrained(small_files.tokenizer)
    assert tokenizer.pad_token == "<|endoftext|>" and tokenizer.eos_token == "<|im_end|>"
    text = '<|im_start|>tool\n[1] Bamako<|im_end|>\n<|im_start|>assistant\n["x"]'
    assert decoded(text, tokenizer) == text
