"""What is drawn: greedy tokens, seeds, and the distribution behind top-k and top-p."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from support.engines import Client, prompt, request

from spader_slime.local.engine.sampling import Draw, Sampler


def test_greedy_tokens_are_those_of_generate(client: Client, model: Any) -> None:
    prompts = [prompt(4 + 3 * i, 40 + i) for i in range(12)]
    replies = client.many([request(p, temperature=0, max_new_tokens=25) for p in prompts])
    for ids, reply in zip(prompts, replies, strict=True):
        with torch.no_grad():
            whole = model.generate(
                torch.tensor([ids]), do_sample=False, max_new_tokens=25, pad_token_id=0
            )
        assert reply["output_ids"] == whole[0, len(ids) :].tolist()


def test_a_seed_decides_whatever_else_is_running(client: Client) -> None:
    body = request(prompt(25, 3), max_new_tokens=30, sampling_seed=11, ignore_eos=True)
    alone = client.ok("/generate", body)["output_ids"]
    others = [request(prompt(3 + i, i), max_new_tokens=5 + i) for i in range(30)]
    crowd = client.many([*others[:15], body, *others[15:], body])
    assert crowd[15]["output_ids"] == crowd[-1]["output_ids"] == alone
    other = client.ok("/generate", request(prompt(25, 3), max_new_tokens=30, sampling_seed=12))
    assert other["output_ids"] != alone


def test_an_output_goes_on_with_the_same_seed_where_it_was_left(client: Client) -> None:
    ids, params = prompt(20, 4), {"sampling_seed": 5, "ignore_eos": True}
    whole = client.generate(ids, max_new_tokens=20, **params)["output_ids"]
    rest = client.generate([*ids, *whole[:8]], max_new_tokens=12, **params)["output_ids"]
    assert whole[:8] + rest == whole


def test_no_seed_draws_one(client: Client) -> None:
    replies = client.many([request(prompt(25, 3), max_new_tokens=30)] * 3)
    assert len({tuple(reply["output_ids"]) for reply in replies}) == 3


def draw(count: int, first_seed: int = 0, **given: Any) -> Draw:
    fields: dict[str, Any] = {
        "temperature": np.ones(count, np.float32),
        "greedy": np.zeros(count, np.bool_),
        "seeds": np.arange(first_seed, first_seed + count, dtype=np.uint64),
        "positions": np.full(count, 17, np.int64),
        "top_k": np.zeros(count, np.int64),
        "top_p": np.ones(count, np.float32),
        "min_p": np.zeros(count, np.float32),
    }
    for name, value in given.items():
        fields[name] = np.full(count, value, fields[name].dtype)
    return Draw(**fields)


LOGITS = torch.tensor([2.0, 1.5, 1.0, 1.0, 0.0, -1.0, -3.0, 1.2])
PROBS = LOGITS.softmax(-1).double().numpy()
COUNT = 20_000


def frequencies(**given: Any) -> np.ndarray:
    sampler = Sampler(len(LOGITS), torch.device("cpu"))
    ids, _ = sampler(LOGITS.repeat(COUNT, 1), draw(COUNT, **given))
    return np.bincount(ids, minlength=len(LOGITS)) / COUNT


def expected(keep: list[int]) -> np.ndarray:
    kept = np.zeros_like(PROBS)
    kept[keep] = PROBS[keep]
    return kept / kept.sum()


@pytest.mark.parametrize(
    ("given", "keep"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"top_k": 3}, [0, 1, 7]),
        ({"top_k": 100}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"top_p": 0.5}, [0, 1]),  # 0.34 + 0.20 pass it
        ({"top_p": 0.65}, [0, 1, 7]),
        ({"min_p": 0.5}, [0, 1]),
        ({"top_k": 4, "top_p": 0.65}, [0, 1, 7]),
        ({"top_k": 1}, [0]),
    ],
)
def test_the_distribution(given: dict[str, Any], keep: list[int]) -> None:
    truth, found = expected(keep), frequencies(**given)
    assert np.abs(found - truth).max() < 4.5 * 0.5 / COUNT**0.5
    assert not found[[i for i in range(len(PROBS)) if i not in keep]].any()


def test_positions_draw_independently() -> None:
    """Pairs of draws at neighbouring positions fill their joint distribution."""
    sampler, even = Sampler(2, torch.device("cpu")), torch.zeros(COUNT, 2)
    one, _ = sampler(even.clone(), draw(COUNT, positions=5))
    two, _ = sampler(even.clone(), draw(COUNT, positions=6))
    pairs = Counter(zip(one.tolist(), two.tolist(), strict=True))
    assert all(abs(count / COUNT - 0.25) < 4.5 * 0.44 / COUNT**0.5 for count in pairs.values())


def test_rows_with_different_parameters_in_one_batch() -> None:
    sampler = Sampler(len(LOGITS), torch.device("cpu"))
    mixed = draw(3)
    mixed.greedy[0], mixed.temperature[1], mixed.top_k[2] = True, 0.5, 2
    ids, log_probs = sampler(LOGITS.repeat(3, 1), mixed)
    plain = torch.stack([LOGITS, LOGITS / 0.5, LOGITS]).log_softmax(-1)
    assert ids[0] == 0 and ids[2] in (0, 1)
    assert log_probs.tolist() == pytest.approx(plain[range(3), ids].tolist(), abs=1e-6)


def test_a_token_that_is_impossible_is_never_drawn() -> None:
    sampler = Sampler(4, torch.device("cpu"))
    logits = torch.tensor([[0.0, -torch.inf, -torch.inf, 0.0]]).repeat(COUNT, 1)
    ids, log_probs = sampler(logits, draw(COUNT))
    assert set(ids.tolist()) == {0, 3} and np.isfinite(log_probs).all()
