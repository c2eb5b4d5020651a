"""Reading a reply: in pieces as in one, and never misaligned whatever is damaged."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st
from support.teacher import meta_of
from support.teaching import check_aligned, check_shape

from spader_slime.agent import teacher_wire
from spader_slime.agent.http import HttpFault
from spader_slime.agent.teacher_reply import read_scores
from spader_slime.agent.teacher_wire import Asked, cut

VOCAB, TOP_K = 259, 3


def make(ids: list[int], prompt: int, top_k: int = TOP_K) -> tuple[Asked, dict[str, Any]]:
    return Asked(ids, prompt, top_k, VOCAB), meta_of(ids, prompt - 1, top_k, VOCAB)


def reply(meta: dict[str, Any], text: str = "") -> bytes:
    return orjson.dumps({"text": text, "meta_info": meta, "output_ids": []})


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 6), st.integers(1, 400))
def test_pieces_of_any_size_read_as_the_whole(
    length: int, prompt: int, top_k: int, size: int
) -> None:
    _, meta = make([(7 * n) % VOCAB for n in range(prompt + length)], prompt, top_k)
    body = reply(meta, text='"input_top_logprobs":[null,[[1]]]')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(teacher_wire, "PIECE_BYTES", size)
        split = cut(body)
        assert split is not None
        rest, pieces = split
        rows = [row for piece in pieces for row in orjson.loads(piece)]
        assert rows == meta["input_top_logprobs"][1:]
        assert orjson.loads(rest)["meta_info"] == meta | {"input_top_logprobs": []}


def test_a_large_reply_equals_a_slow_loop() -> None:
    ids = [(11 * n) % VOCAB for n in range(6000)]
    asked, meta = make(ids, 10)
    meta["output_top_logprobs"] = []
    body = reply(meta)
    assert len(body) > 3 * teacher_wire.PIECE_BYTES
    scores = read_scores(body, asked)
    check_aligned(scores, ids, 10, VOCAB)
    for t in (0, 1, 2999, 5989):
        probs = [math.exp(p) for p, *_ in meta["input_top_logprobs"][t + 1]]
        tail = 1 - sum(probs)
        assert math.isclose(
            scores.entropy_T[t], -sum(p * math.log(p) for p in [*probs, tail]), rel_tol=1e-5
        )


@pytest.mark.parametrize("indent", [None, orjson.OPT_INDENT_2], ids=["compact", "indented"])
def test_a_large_reply_in_another_layout(indent: int | None) -> None:
    ids = [(11 * n) % VOCAB for n in range(3000)]
    asked, meta = make(ids, 10)
    body = orjson.dumps({"meta_info": meta}, option=indent)
    assert teacher_wire.PIECE_BYTES < len(body) < 4 * asked.reply_limit
    check_aligned(read_scores(body, asked), ids, 10, VOCAB)


@pytest.mark.parametrize("place", [1, 700, 2990])
@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda top, n: top.pop(n), "length"),
        (lambda top, n: top[n].pop(), "length"),
        (lambda top, n: top.insert(n, None), "not_finite"),
        (lambda top, n: top[n][0].__setitem__(1, VOCAB), "vocabulary"),
        (lambda top, n: top[n][0].__setitem__(0, "x]],[[y"), "malformed"),
    ],
    ids=["gone", "thin", "null", "past", "text"],
)
def test_faults_anywhere_in_a_large_reply(place: int, change: Any, kind: str) -> None:
    asked, meta = make([(11 * n) % VOCAB for n in range(3000)], 10)
    change(meta["input_top_logprobs"], place)
    with pytest.raises(HttpFault) as caught:
        read_scores(reply(meta), asked)
    assert caught.value.kind == kind


def damage(meta: dict[str, Any], draw: Any) -> None:
    """One list of scores loses, doubles or empties an entry, or one number changes."""
    name = draw(st.sampled_from(["input_token_logprobs", "input_top_logprobs"]))
    entries = meta[name]
    n = draw(st.integers(0, len(entries) - 1))
    how = draw(st.sampled_from(["pop", "double", "empty", "number", "gone", "cut"]))
    if how == "pop":
        entries.pop(n)
    elif how == "double":
        entries.insert(n, entries[n])
    elif how == "empty":
        entries[n] = draw(st.sampled_from([None, [], {}, 3, "x", [None], [[]]]))
    elif how == "number" and n:
        triple = entries[n] if name == "input_token_logprobs" else entries[n][0]
        wrong: list[Any] = [None, "nan", 1e300, -1e300, {}, []]
        column = draw(st.integers(0, 1))
        triple[column] = draw(st.sampled_from([*wrong, *([-1, 0.5, 10**9] if column else [])]))
    elif how == "gone":
        del meta[name]
    else:
        del entries[n:]


@settings(max_examples=500)
@given(st.data(), st.lists(st.integers(0, VOCAB - 1), min_size=2, max_size=12))
def test_whatever_is_damaged_scores_are_right_or_refused(
    data: st.DataObject, ids: list[int]
) -> None:
    prompt = data.draw(st.integers(1, len(ids) - 1))
    asked, meta = make(ids, prompt)
    damage(meta, data.draw)
    body = reply(meta)
    if data.draw(st.booleans()):
        body = body[: data.draw(st.integers(0, len(body)))]
    try:
        scores = read_scores(body, asked)
    except HttpFault as fault:
        event(fault.kind)
        return
    event("right")
    check_shape(scores, len(ids) - prompt, TOP_K)
    check_aligned(scores, ids, prompt, VOCAB)


def test_server_entropies_must_fit() -> None:
    asked, meta = make([1, 2, 3, 4], 2)
    for given_, kind in (([None, 1.0], "length"), ([None, 1.0, None], "not_finite")):
        with pytest.raises(HttpFault) as caught:
            read_scores(reply(meta | {"input_token_entropy": given_}), asked)
        assert caught.value.kind == kind
    scores = read_scores(reply(meta | {"input_token_entropy": [None, 1.5, 0.25]}), asked)
    assert torch.equal(scores.entropy_T, torch.tensor([1.5, 0.25]))
