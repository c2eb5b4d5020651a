"""The teacher client against the embedded engine, and what it sends."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from aiohttp import web
from support.engines import Client, plain_log_probs, plain_model, prompt, serving
from support.teacher import ScriptedTeacher
from support.teaching import check_aligned, check_shape, client, score, trajectory
from support.tokenizers import byte_tokenizer
from support.web import LoopbackServer

from spader_slime.agent import teacher as module
from spader_slime.agent.event_loops import LARGE
from spader_slime.agent.teacher_reply import read_scores
from spader_slime.algorithms.distillation import entropy, entropy_gap
from spader_slime.errors import ConfigError, DataError, TeacherError
from spader_slime.local.initial import write_initial
from spader_slime.local.settings import PolicySettings

CASES = Path(__file__).parents[1] / "cases" / "teacher.jsonl"
SHAPE = PolicySettings(layers=2, hidden=32, ffn=64, heads=4, kv_heads=2, head_dim=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("teacher")
    byte_tokenizer(home / "tokenizer")
    return write_initial(home / "model", SHAPE, home / "tokenizer", 512, 0)


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Client]:
    with serving(folder, 16, 256) as client:
        yield client


def test_scores_are_the_models_own(engine: Client, folder: Path) -> None:
    """Many trajectories at once, after the vocabularies were compared."""
    ids = [prompt(length, length) for length in (9, 40, 100, 200)]
    prompts = [1, 20, 99, 50]
    masks = [[1] * (len(i) - p) for i, p in zip(ids, prompts, strict=True)]
    asked = list(zip(ids, prompts, masks, strict=True))
    replies = score(engine.url, byte_tokenizer(), asked, check=True, top_k=16)
    model = plain_model(folder)
    for reply, (own, start, mask) in zip(replies, asked, strict=True):
        assert reply.fault is None and reply.seconds > 0
        scores, plain_TV = reply.scores, plain_log_probs(model, own)[start - 1 : -1]
        check_shape(scores, len(mask), 16)
        sampled = plain_TV.gather(1, torch.tensor(own[start:])[:, None])[:, 0]
        torch.testing.assert_close(scores.log_probs_T, sampled, atol=2e-5, rtol=0)
        named = plain_TV.gather(1, scores.ids_TK)
        torch.testing.assert_close(scores.log_probs_TK, named, atol=2e-5, rtol=0)
        best = plain_TV.topk(16).values
        torch.testing.assert_close(scores.log_probs_TK, best, atol=2e-5, rtol=0)
        missing = entropy(plain_TV) - scores.entropy_T
        assert (missing > -1e-4).all()
        assert (missing < entropy_gap(scores.log_probs_TK, len(byte_tokenizer())) + 1e-4).all()


def test_scores_are_what_the_engine_says_of_its_own_sample(engine: Client) -> None:
    ids = prompt(20, 1)
    sampled = engine.generate(ids, max_new_tokens=40, temperature=1.0, ignore_eos=True)
    own = sampled["output_ids"]
    (reply,) = score(engine.url, byte_tokenizer(), [([*ids, *own], 20, [1] * 40)])
    wanted = [p for p, *_ in sampled["meta_info"]["output_token_logprobs"]]
    np.testing.assert_allclose(reply.scores.log_probs_T.numpy(), wanted, atol=2e-5)


@pytest.mark.parametrize(
    ("student", "message"),
    [
        (byte_tokenizer(special=["<|bos|>", "<|im_start|>", "<|im_end|>"]), r"id 0 is '<\|endof"),
        (byte_tokenizer(words=("Oslo",)), "the teacher refuses ids up to 259"),
        (
            byte_tokenizer(special=["<|endoftext|>", "<|im_end|>"]),
            r"id 1 is '<\|im_start\|>'",
        ),
    ],
    ids=["special", "larger", "shifted"],
)
def test_another_vocabulary_is_refused(engine: Client, student: Any, message: str) -> None:
    with pytest.raises(TeacherError, match=message) as caught:
        score(engine.url, student, [], check=True)
    assert caught.value.kind == "vocabulary"


@pytest.mark.parametrize("case", [json.loads(line) for line in CASES.open()], ids=["1", "2"])
def test_shared_cases(case: dict[str, Any]) -> None:
    asked: list[dict[str, Any]] = []

    async def generate(request: web.Request) -> web.Response:
        asked.append(await request.json())
        own = case["input_token_logprobs"]
        top = [None, *([[-1.0, 3, None]] * 4 for _ in own[1:])]
        meta = {"input_token_logprobs": own, "input_top_logprobs": top}
        return web.json_response({"meta_info": meta})

    length = len(case["ids"]) - case["prompt_len"]
    with LoopbackServer({"/generate": generate}) as server:
        one = (case["ids"], case["prompt_len"], [1] * length)
        (reply,) = score(server.url, byte_tokenizer(), [one])
    assert reply.fault is None
    np.testing.assert_allclose(reply.scores.log_probs_T.numpy(), case["want"], rtol=1e-6)
    check_shape(reply.scores, length)
    assert [body["logprob_start_len"] for body in asked] == (
        [case["logprob_start_len"]] if length else []
    )


def test_what_is_asked_and_what_comes_of_it() -> None:
    words = byte_tokenizer()
    ids, start, mask = trajectory(1)
    with ScriptedTeacher(words) as teacher:
        (reply,) = score(teacher.url + "/", words, [(ids, start, mask)])
    assert teacher.asked == [
        {
            "input_ids": ids,
            "sampling_params": {"max_new_tokens": 0, "temperature": 0},
            "return_logprob": True,
            "logprob_start_len": start - 1,
            "top_logprobs_num": 4,
        }
    ]
    check_shape(reply.scores, len(mask))
    check_aligned(reply.scores, ids, start, len(words))
    assert reply.scores.weight_T.tolist() == mask


def test_exact_entropies_where_the_server_gives_them() -> None:
    words, one = byte_tokenizer(), trajectory(1)
    with ScriptedTeacher(words) as teacher:
        teacher.entropy = True
        (reply,) = score(teacher.url, words, [one], check=True)
    assert teacher.asked[0]["return_entropy"] is True
    assert reply.scores.entropy_T.tolist() == [p / 8 for p in range(one[1], len(one[0]))]


def test_nothing_is_sent_for_nothing() -> None:
    words = byte_tokenizer()
    with ScriptedTeacher(words) as teacher:
        replies = score(teacher.url, words, [([1, 2], 2, []), ([1, 2, 3], 1, [0, 0])])
    assert [reply.fault for reply in replies] == [None, None] and not teacher.asked
    for reply, length in zip(replies, (0, 2), strict=True):
        check_shape(reply.scores, length)


@pytest.mark.parametrize("one", [([1, 2, 3], 1, [1]), ([1, 2], 0, [1, 1]), ([1], 2, [])])
def test_a_callers_mistake_is_no_fault_of_the_teacher(one: Any) -> None:
    with pytest.raises(DataError):
        score("http://127.0.0.1:9", byte_tokenizer(), [one])


@pytest.mark.parametrize("urls", [[], ["localhost:8000"], ["ftp://x"]])
def test_addresses_are_checked_at_once(urls: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"distillation\.urls"):
        client(urls, byte_tokenizer())


def test_no_more_calls_at_once_than_allowed() -> None:
    words = byte_tokenizer()
    with ScriptedTeacher(words) as teacher:
        score(teacher.url, words, [trajectory(n) for n in range(20)], concurrency=3)
    assert teacher.most <= 3 and len(teacher.asked) == 20


async def test_a_cancelled_call_gives_its_place_back() -> None:
    words = byte_tokenizer()
    with ScriptedTeacher(words, lambda ids: "slow" if ids[0] == 1 else "") as server:
        teacher = client(server.url, words, concurrency=1)
        slow = asyncio.create_task(teacher.score(*trajectory(1)))
        while not server.asked:
            await asyncio.sleep(0.001)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert (await teacher.score(*trajectory(2))).fault is None
        await teacher.close()


def test_large_replies_are_read_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    words, threads = byte_tokenizer(), []

    def read(body: bytes, asked: Any) -> Any:
        threads.append((len(body) >= LARGE, threading.get_ident()))
        return read_scores(body, asked)

    monkeypatch.setattr(module, "read_scores", read)
    large = trajectory(1, 4000)
    with ScriptedTeacher(words) as teacher:
        replies = score(teacher.url, words, [large, trajectory(2)])
    check_aligned(replies[0].scores, *large[:2], len(words))
    here = threading.get_ident()
    assert {(size, thread == here) for size, thread in threads} == {(True, False), (False, True)}


def test_one_client_serves_several_event_loops() -> None:
    words = byte_tokenizer()
    with ScriptedTeacher(words) as server:
        teacher = client(server.url, words)
        for n in range(2):
            assert asyncio.run(teacher.score(*trajectory(n))).fault is None
        asyncio.run(teacher.close())
