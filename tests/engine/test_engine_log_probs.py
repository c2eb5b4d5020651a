"""Log-probs against a plain transformers forward pass, and how they are nested."""

from __future__ import annotations

from typing import Any

import pytest
from support.engines import Client, log_prob_gap, plain_log_probs, prompt, request

EXACT = 1e-5


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.0, 1.7])
def test_output_log_probs_are_those_of_logits_over_temperature(
    client: Client, model: Any, temperature: float
) -> None:
    ids = prompt(30, 1)
    reply = client.generate(ids, temperature=temperature, max_new_tokens=20, top_k=50, top_p=0.9)
    assert log_prob_gap(model, ids, reply, temperature or 1.0) < EXACT


def test_batched_with_other_lengths_and_more_requests_than_rows(client: Client, model: Any) -> None:
    prompts = [prompt(1 + 5 * (i % 23), i) for i in range(40)]
    bodies = [request(p, max_new_tokens=1 + i % 30) for i, p in enumerate(prompts)]
    for ids, reply in zip(prompts, client.many(bodies), strict=True):
        assert log_prob_gap(model, ids, reply) < EXACT


def test_turns_reuse_the_cache(client: Client, model: Any) -> None:
    turns = {i: prompt(20, 1000 + i) for i in range(8)}
    seen: dict[int, int] = {}
    for turn in range(4):
        bodies = [request(ids, max_new_tokens=12, ignore_eos=True) for ids in turns.values()]
        for i, reply in enumerate(client.many(bodies)):
            assert log_prob_gap(model, turns[i], reply) < EXACT
            if turn:
                assert reply["meta_info"]["cached_tokens"] == seen[i] - 1
            turns[i] = [*turns[i], *reply["output_ids"]]
        seen = {i: len(ids) for i, ids in turns.items()}
        turns = {i: [*ids, *prompt(3 + i, turn)] for i, ids in turns.items()}


def test_shared_prefix_is_copied_and_own_end_is_not(client: Client, model: Any) -> None:
    shared = prompt(40, 77)
    client.generate(shared, max_new_tokens=10)
    prompts = [[*shared, *prompt(5 + i, 500 + i)] for i in range(6)]
    replies = client.many([request(p, max_new_tokens=15) for p in prompts])
    assert all(reply["meta_info"]["cached_tokens"] >= 40 for reply in replies)
    assert max(log_prob_gap(model, p, r) for p, r in zip(prompts, replies, strict=True)) < EXACT


@pytest.mark.parametrize("start", [0, 1, 17, 29])
def test_prompt_scores(client: Client, model: Any, start: int) -> None:
    ids = prompt(30, 5)
    for _ in range(2):  # cached the second time
        meta = client.generate(ids, max_new_tokens=2, temperature=0.5, _logprob_start_len=start)[
            "meta_info"
        ]
        triples = meta["input_token_logprobs"]
        assert triples[0] == [None, ids[start], None] and len(triples) == 30 - start
        plain = plain_log_probs(model, ids)
        for place, (log_prob, token, text) in enumerate(triples[1:], start + 1):
            assert token == ids[place] and text is None
            assert log_prob == pytest.approx(plain[place - 1, token].item(), abs=EXACT)


def test_nesting_of_best_and_asked_tokens(client: Client, model: Any) -> None:
    ids = prompt(10, 6)
    fields = {"_top_logprobs_num": 3, "_token_ids_logprob": [7, 5], "_logprob_start_len": 4}
    reply = client.generate(ids, max_new_tokens=4, ignore_eos=True, **fields)
    meta, plain = reply["meta_info"], plain_log_probs(model, [*ids, *reply["output_ids"]])
    assert meta["input_top_logprobs"][0] is None and meta["input_token_ids_logprobs"][0] is None
    tops = [*meta["input_top_logprobs"][1:], *meta["output_top_logprobs"]]
    asked = [*meta["input_token_ids_logprobs"][1:], *meta["output_token_ids_logprobs"]]
    assert len(meta["output_top_logprobs"]) == 4 and len(tops) == len(asked) == 9
    for row, (top, own) in enumerate(zip(tops, asked, strict=True), 4):
        best = plain[row].topk(3)
        assert [t[1] for t in top] == best.indices.tolist()
        assert [t[0] for t in top] == pytest.approx(best.values.tolist(), abs=EXACT)
        assert [t[1] for t in own] == [7, 5] and top[0][2] is None
        assert [t[0] for t in own] == pytest.approx(plain[row, [7, 5]].tolist(), abs=EXACT)


def test_without_start_no_prompt_score_and_without_return_none_at_all(client: Client) -> None:
    meta = client.generate(prompt(9, 8), max_new_tokens=2)["meta_info"]
    assert meta["input_token_logprobs"] == [] and "output_top_logprobs" not in meta
    meta = client.generate(prompt(9, 8), max_new_tokens=2, _return_logprob=False)["meta_info"]
    assert not [name for name in meta if "logprobs" in name]


def test_scoring_only(client: Client, model: Any) -> None:
    ids = prompt(12, 9)
    reply = client.generate(ids, max_new_tokens=0, temperature=0, _logprob_start_len=0)
    meta = reply["meta_info"]
    assert reply["output_ids"] == [] and meta["finish_reason"] == {"type": "length", "length": 0}
    plain = plain_log_probs(model, ids)
    expected = [plain[t - 1, ids[t]].item() for t in range(1, 12)]
    found = [log_prob for log_prob, *_ in meta["input_token_logprobs"][1:]]
    assert found == pytest.approx(expected, abs=EXACT)


def test_texts_in_triples(client: Client, tokenizer: Any) -> None:
    ids = tokenizer.encode("hello")
    meta = client.generate(
        ids, max_new_tokens=1, _return_text_in_logprobs=True, _logprob_start_len=0
    )["meta_info"]
    assert [t[2] for t in meta["input_token_logprobs"]] == list("hello")
    (triple,) = meta["output_token_logprobs"]
    assert triple[2] == tokenizer.decode([triple[1]])
