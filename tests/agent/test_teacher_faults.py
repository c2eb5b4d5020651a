"""Every fault of a teacher costs samples, never alignment, and is counted once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.teacher import FAULTS, ScriptedTeacher
from support.teaching import (
    Trajectory,
    check_aligned,
    check_lost,
    check_shape,
    client,
    score,
    trajectory,
)
from support.tokenizers import byte_tokenizer

from spader_slime.agent.teacher import TeacherReply
from spader_slime.errors import TEACHER_ERROR_KINDS, TeacherError

WORDS = byte_tokenizer()
ONCE = {"refused", "huge", "past", "negative"}  # trying again would not help
NAMES = list(FAULTS)


def check_good(reply: TeacherReply, one: Trajectory) -> None:
    ids, prompt, mask = one
    assert reply.fault is None
    check_shape(reply.scores, len(mask))
    check_aligned(reply.scores, ids, prompt, len(WORDS))
    assert reply.scores.weight_T.tolist() == mask


@pytest.mark.parametrize("fault", NAMES)
def test_every_fault_is_a_lost_sample_after_bounded_retries(fault: str) -> None:
    with ScriptedTeacher(WORDS, lambda ids: fault) as teacher:
        timeout_s = 0.5 if fault == "slow" else 30.0
        (reply,) = score(teacher.url, WORDS, [trajectory(1)], timeout_s=timeout_s)
    check_lost(reply, 9, FAULTS[fault])
    assert len(teacher.asked) == (1 if fault in ONCE else 3)


def test_every_kind_is_drilled() -> None:
    assert set(FAULTS.values()) == set(TEACHER_ERROR_KINDS)


@pytest.mark.parametrize("fault", [name for name in NAMES if name not in ONCE])
def test_a_passing_fault_is_only_a_retry(fault: str) -> None:
    calls = iter([fault, fault, ""])
    with ScriptedTeacher(WORDS, lambda ids: next(calls)) as teacher:
        timeout_s = 0.5 if fault == "slow" else 30.0
        (reply,) = score(teacher.url, WORDS, [trajectory(1)], timeout_s=timeout_s)
    check_good(reply, trajectory(1))
    assert len(teacher.asked) == 3


def test_counts_add_up_when_everything_goes_wrong_at_once() -> None:
    """All faults between good trajectories, none of which suffers."""
    names = [name for fault in NAMES for name in (fault, "")]
    lengths = [1 + n % 13 for n in range(len(names))]
    asked = [trajectory(n, lengths[n]) for n in range(len(names))]
    with ScriptedTeacher(WORDS, lambda ids: names[ids[0]]) as teacher:
        replies = score(teacher.url, WORDS, asked, timeout_s=3.0, retries=0)
    for reply, name, one in zip(replies, names, asked, strict=True):
        if name:
            check_lost(reply, len(one[2]), FAULTS[name])
        else:
            check_good(reply, one)
    lost = Counter(reply.fault for reply in replies)
    assert lost == Counter([*FAULTS.values(), *[None] * len(NAMES)])


def test_a_teacher_that_is_down() -> None:
    with ScriptedTeacher(WORDS) as teacher:
        url = teacher.url
    (reply,) = score(url, WORDS, [trajectory(1)])
    check_lost(reply, 9, "connection")
    with pytest.raises(TeacherError, match="can't be reached") as caught:
        score(url, WORDS, [], check=True)
    assert caught.value.kind == "connection"


def test_servers_stand_in_for_each_other() -> None:
    """One is down, one fails always, one only for some; nothing is lost."""
    with ScriptedTeacher(WORDS) as down:
        gone = down.url
    asked = [trajectory(n) for n in range(30)]
    with (
        ScriptedTeacher(WORDS) as good,
        ScriptedTeacher(WORDS, lambda ids: "status") as bad,
        ScriptedTeacher(WORDS, lambda ids: "" if ids[0] % 2 else "null") as poor,
    ):
        urls = [gone, bad.url, poor.url, good.url]
        replies = score(urls, WORDS, asked, retries=5, concurrency=8)
    for reply, one in zip(replies, asked, strict=True):
        check_good(reply, one)
    assert good.asked and poor.asked and len(bad.asked) < len(asked)


async def test_a_restart_in_the_middle_loses_nothing_or_is_counted() -> None:
    with ScriptedTeacher(WORDS) as server:
        teacher = client(server.url, WORDS)
        await teacher.check()
        check_good(await teacher.score(*trajectory(1)), trajectory(1))
        server.gone = True
        check_lost(await teacher.score(*trajectory(2)), 9, "connection")
        server.gone = False
        check_good(await teacher.score(*trajectory(3)), trajectory(3))
        await teacher.close()


async def test_what_comes_back_after_a_restart_is_compared_again() -> None:
    other: Any = byte_tokenizer(special=["<|a|>", "<|b|>", "<|im_end|>"])
    with ScriptedTeacher(WORDS) as server:
        teacher = client(server.url, WORDS)
        await teacher.check()
        server.gone = True
        check_lost(await teacher.score(*trajectory(1)), 9, "connection")
        server.gone, server.tokenizer = False, other
        check_lost(await teacher.score(*trajectory(2)), 9, "vocabulary")
        server.tokenizer = WORDS
        check_good(await teacher.score(*trajectory(3)), trajectory(3))
        await teacher.close()


async def test_a_server_away_at_the_start_is_compared_before_its_first_use() -> None:
    with (
        ScriptedTeacher(WORDS) as good,
        ScriptedTeacher(byte_tokenizer(eos="<|im_start|>")) as late,
    ):
        late.gone = True
        teacher = client([late.url, good.url], WORDS, retries=3)
        await teacher.check()
        late.gone, late.tokenizer = False, byte_tokenizer(special=["<|a|>", "<|im_end|>"])
        for n in range(6):
            check_good(await teacher.score(*trajectory(n)), trajectory(n))
        await teacher.close()
    assert len(good.asked) == 6 and not late.asked
