"""Comparing the vocabulary of a served teacher with the student's."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web
from support.teacher import ScriptedTeacher
from support.teaching import client, score
from support.tokenizers import SPECIAL, byte_tokenizer
from support.web import LoopbackServer

from spader_slime.agent.teacher_vocabulary import SAMPLED, sampled_ids, size_of
from spader_slime.errors import TeacherError

WORDS = byte_tokenizer(words=("Oslo", "Lima"))
MANY = byte_tokenizer(words=tuple(f"w{n}" for n in range(2000)))


def compare(teacher: Any, student: Any, rows: int | None = None, **config: Any) -> list[Any]:
    """Bodies of what was asked on the way."""
    with ScriptedTeacher(teacher) as server:
        server.rows = rows or len(teacher)
        score(server.url, student, [], check=True, **config)
        return server.bodies


def refusal(teacher: Any, student: Any, rows: int | None = None) -> str:
    with pytest.raises(TeacherError) as caught:
        compare(teacher, student, rows)
    assert caught.value.kind == "vocabulary"
    return str(caught.value)


@pytest.mark.parametrize("spare", [0, 1, 100])
def test_the_same_vocabulary_with_any_number_of_spare_rows(spare: int) -> None:
    compare(WORDS, WORDS, len(WORDS) + spare)


def test_a_smaller_one_is_never_fed_an_id_it_lacks() -> None:
    """SGLang of some versions would end there."""
    teacher = byte_tokenizer(words=("Oslo",))
    with ScriptedTeacher(teacher) as server:
        with pytest.raises(TeacherError, match="smaller: it has no id 260"):
            score(server.url, WORDS, [], check=True)
        assert max(max(body["input_ids"]) for body in server.bodies) < len(teacher)


def test_fewer_tokens_but_as_many_rows() -> None:
    message = refusal(byte_tokenizer(words=("Oslo",)), WORDS, len(WORDS) + 9)
    assert "id 260 is '' to the teacher and 'Lima' to the student" in message


def test_a_larger_one() -> None:
    message = refusal(WORDS, byte_tokenizer(words=("Oslo",)))
    assert "larger: its id 260 is 'Lima'" in message


def test_another_special_token() -> None:
    other = byte_tokenizer(special=[*SPECIAL[:2], "<|end|>"], words=("Oslo", "Lima"), eos="<|end|>")
    assert "id 2 is '<|im_end|>' to the teacher and '<|end|>'" in refusal(WORDS, other)


def test_two_words_exchanged() -> None:
    assert "id 259 is 'Oslo'" in refusal(WORDS, byte_tokenizer(words=("Lima", "Oslo")))


def test_bytes_that_are_no_character_alone_agree() -> None:
    """As texts they are all the same replacement character."""
    texts = {WORDS.decode([token]) for token in range(len(WORDS))}
    assert "\ufffd" in texts
    compare(WORDS, byte_tokenizer(words=("Oslo", "Lima")))


def test_a_large_vocabulary_is_sampled_from_end_to_end() -> None:
    ids = sampled_ids(MANY)
    assert ids == sorted(set(ids)) and len(ids) <= 2 * SAMPLED + len(SPECIAL)
    assert {0, 1, 2, size_of(MANY) - 1} <= set(ids)
    assert max(b - a for a, b in pairwise(ids)) <= size_of(MANY) // SAMPLED + 1
    bodies = compare(MANY, MANY)
    assert max(len(body["input_ids"]) for body in bodies) <= 64


def test_a_server_without_texts_is_refused() -> None:
    async def generate(request: web.Request) -> web.Response:
        own = [[None, token, None] for token in (await request.json())["input_ids"]]
        return web.json_response({"meta_info": {"input_token_logprobs": own}})

    with (
        LoopbackServer({"/generate": generate}) as server,
        pytest.raises(TeacherError, match="served with its tokenizer"),
    ):
        score(server.url, WORDS, [], check=True)


async def test_one_of_several_servers_that_disagrees_is_enough() -> None:
    with ScriptedTeacher(WORDS) as good, ScriptedTeacher(byte_tokenizer()) as other:
        teacher = client([good.url, other.url], WORDS)
        with pytest.raises(TeacherError) as caught:
            await teacher.check()
        await teacher.close()
    assert caught.value.kind == "vocabulary"


async def test_a_second_check_asks_nothing() -> None:
    with ScriptedTeacher(WORDS) as server:
        teacher = client(server.url, WORDS)
        await teacher.check()
        asked = len(server.bodies)
        await teacher.check()
        await teacher.close()
        assert len(server.bodies) == asked > 3
