"""Where outputs end, and the text they stand for."""

from __future__ import annotations

from typing import Any

import pytest
from support.engines import Client, prompt

from spader_slime.local.engine.params import SamplingParams
from spader_slime.local.engine.stops import StopStrings, output_text

IDS = prompt(20, 21)
SEEDED = {"sampling_seed": 3, "max_new_tokens": 24}


@pytest.fixture(scope="module")
def whole(client: Client) -> list[int]:
    """The output that nothing stops."""
    ids: list[int] = client.generate(IDS, ignore_eos=True, **SEEDED)["output_ids"]
    assert len(ids) == 24
    return ids


def first(ids: list[int], token: int) -> list[int]:
    return ids[: ids.index(token) + 1]


def test_length(client: Client, whole: list[int]) -> None:
    reply = client.generate(IDS, ignore_eos=True, **{**SEEDED, "max_new_tokens": 7})
    assert reply["output_ids"] == whole[:7]
    assert reply["meta_info"]["finish_reason"] == {"type": "length", "length": 7}
    assert reply["meta_info"]["completion_tokens"] == 7
    assert reply["meta_info"]["prompt_tokens"] == 20


def test_stop_token(client: Client, whole: list[int], tokenizer: Any) -> None:
    reply = client.generate(IDS, stop_token_ids=[whole[9], 300, -5], **SEEDED)
    assert reply["output_ids"] == first(whole, whole[9])
    assert reply["meta_info"]["finish_reason"] == {"type": "stop", "matched": whole[9]}
    kept = client.generate(IDS, stop_token_ids=[whole[9]], no_stop_trim=True, **SEEDED)
    assert kept["output_ids"] == reply["output_ids"]
    assert reply["text"] == tokenizer.decode(reply["output_ids"][:-1])
    assert kept["text"] == tokenizer.decode(reply["output_ids"])


def test_the_last_allowed_token_may_be_a_stop(client: Client, whole: list[int]) -> None:
    ids = first(whole, whole[9])
    params = {**SEEDED, "max_new_tokens": len(ids)}
    reason = client.generate(IDS, stop_token_ids=[whole[9]], **params)["meta_info"]["finish_reason"]
    assert reason["type"] == "stop"


def test_stop_string(client: Client, whole: list[int], tokenizer: Any) -> None:
    text = tokenizer.decode(whole)
    stop = next(text[i : i + 3] for i in range(4, 20) if text[i : i + 3].isascii())
    reply = client.generate(IDS, stop=["absent", stop], ignore_eos=True, **SEEDED)
    assert reply["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop}
    assert reply["text"] == text[: text.index(stop)]
    ids = reply["output_ids"]
    assert ids == whole[: len(ids)] and tokenizer.decode(ids).endswith(stop)
    kept = client.generate(IDS, stop=stop, no_stop_trim=True, ignore_eos=True, **SEEDED)
    assert kept["text"] == text[: text.index(stop) + 3]


def test_end_token_ends_unless_ignored(client: Client, tokenizer: Any) -> None:
    end = tokenizer.eos_token_id
    ended = None
    for seed in range(60):
        params = {"sampling_seed": seed, "max_new_tokens": 60, "temperature": 1.5}
        reply = client.generate(IDS, **params)
        if reply["meta_info"]["finish_reason"]["type"] == "stop":
            ended = seed, reply
            break
    assert ended is not None, "no output ended by itself"
    seed, reply = ended
    assert reply["meta_info"]["finish_reason"]["matched"] == end
    assert reply["output_ids"].index(end) == len(reply["output_ids"]) - 1
    params = {"sampling_seed": seed, "max_new_tokens": 60, "temperature": 1.5, "ignore_eos": True}
    ignored = client.generate(IDS, **params)["output_ids"]
    assert len(ignored) == 60 and ignored[: len(reply["output_ids"])] == reply["output_ids"]


@pytest.mark.parametrize("skip", [True, False])
def test_special_tokens_in_text(client: Client, tokenizer: Any, skip: bool) -> None:
    params = {"temperature": 0, "max_new_tokens": 1, "skip_special_tokens": skip}
    reply = client.generate(IDS, no_stop_trim=True, ignore_eos=True, **params)
    assert reply["text"] == tokenizer.decode(reply["output_ids"], skip_special_tokens=skip)
    ids, end = [104, 105, 2], SamplingParams(skip_special_tokens=skip, no_stop_trim=True)
    text = output_text(tokenizer, ids, end, {"type": "stop", "matched": 2})
    assert text.endswith("<|im_end|>") is not skip


def test_stop_strings_over_several_bytes_and_tokens(tokenizer: Any) -> None:
    ids = tokenizer.encode("a → b</search> c")
    for stop in ("→", "</search>", "h> ", "→ b<"):
        found = StopStrings([stop], tokenizer)
        ends = [i for i in range(1, len(ids) + 1) if found.find(ids[:i]) == stop]
        texts = [tokenizer.decode(ids[:i]) for i in range(1, len(ids) + 1)]
        assert ends[0] == next(i for i, text in enumerate(texts, 1) if stop in text)


def test_stop_string_that_is_a_special_token(tokenizer: Any) -> None:
    assert StopStrings(["<|im_end|>"], tokenizer).find([104, 2]) == "<|im_end|>"
