"""Batches of the cold start and the settings it is trained with."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from typing import Any

import pytest
import torch
from support.scripts import Parts, configured, make_parts

from spader_slime.errors import ConfigError
from spader_slime.local.cold_start import ColdStartSettings, cold_start_learner
from spader_slime.local.guide import name_tokens
from spader_slime.local.world.build import WorldFiles
from spader_slime.megatron.settings import LearnerSettings, check_settings

LATER = 1500  # a step after copying and short scripts


def texts(parts: Parts, batch: dict[str, list[Any]]) -> list[str]:
    return [parts.decode(ids.tolist()) for ids in batch["tokens"]]


def same(a: dict[str, list[Any]], b: dict[str, list[Any]]) -> bool:
    lengths = a["response_lengths"] == b["response_lengths"]
    pairs = [(a[key], b[key]) for key in ("tokens", "loss_masks")]
    return lengths and all(len(x) == len(y) and all(map(torch.equal, x, y)) for x, y in pairs)


def test_a_batch_follows_from_seed_and_step_alone(files: WorldFiles) -> None:
    parts = make_parts(files, configured())
    whole = list(islice(parts.batches(), 8))
    again = list(islice(make_parts(files, configured()).batches(5), 3))
    assert all(map(same, whole[5:], again))
    other = make_parts(files, configured(run={"seed": 1}))
    assert not same(whole[5], other.batch(5))
    assert not same(whole[5], whole[6])


@pytest.mark.parametrize("step", [0, 150, 390, 450, LATER, 1999])
def test_a_batch_is_what_the_trainer_reads(parts: Parts, step: int) -> None:
    batch = parts.batch(step)
    lengths = [len(ids) for ids in batch["tokens"]]
    assert sum(lengths) <= parts.config.cold_start.batch_tokens
    assert max(lengths) - min(lengths) <= 0.2 * max(lengths)
    for ids, response, mask in zip(*batch.values(), strict=True):
        assert ids.dtype == torch.int64 and 0 < response < len(ids)
        assert len(mask) == response and mask[-1] == 1
        assert int(ids.max()) < len(parts.tokenizer)


def test_a_batch_has_two_scripts_at_least(files: WorldFiles) -> None:
    parts = make_parts(files, configured(cold_start={"batch_tokens": 1}))
    assert len(parts.batch(LATER)["tokens"]) == 2


def test_copying_comes_first_then_short_scripts_then_all(parts: Parts) -> None:
    searches: Counter[int] = Counter()
    for step in (10, 200, 399):
        assert all("<tool_call>" not in text for text in texts(parts, parts.batch(step)))
    for step in range(400, 600, 10):
        text = texts(parts, parts.batch(step))[0]
        assert text.count("<tool_call>") <= 2
    for step in range(600, 2000, 10):
        searches[texts(parts, parts.batch(step))[0].count("<tool_call>")] += 1
    assert searches[1] > searches[2] > searches[4] > 0
    assert any(count >= 5 for count in searches)


def test_copies_list_every_title_with_its_number(parts: Parts) -> None:
    for text in texts(parts, parts.batch(300)):
        shown, _, answer = text.partition("<answer>")
        titles = re.findall(r"^(\[\d+\] .+?)(?:<\|im_end\|>)?$", shown, re.MULTILINE)
        assert titles and sorted(titles) == sorted(re.findall(r'"([^"]+)"', answer))


def test_names_are_exchanged_one_for_one(files: WorldFiles) -> None:
    plain = make_parts(files, configured(cold_start={"permute_share": 0.0}))
    mixed = make_parts(files, configured(cold_start={"permute_share": 1.0}))
    names = set(name_tokens(plain.tokenizer).values())
    before, after = (
        plain.batch(LATER)["tokens"][0].tolist(),
        mixed.batch(LATER)["tokens"][0].tolist(),
    )
    assert before != after
    pairs = set(zip(before, after, strict=True))
    assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs)
    assert all((a in names) == (b in names) and (a in names or a == b) for a, b in pairs)


def test_unexchanged_scripts_ask_training_questions_only(files: WorldFiles) -> None:
    parts = make_parts(files, configured(cold_start={"permute_share": 0.0}))
    asked = {q.text for q in parts.guide.questions}
    for step in range(LATER, LATER + 20):
        for text in texts(parts, parts.batch(step)):
            question = re.match(r"<\|im_start\|>user\n(.*?)<\|im_end\|>", text)
            assert question is None or question[1] in asked


def test_weights_that_cannot_be_drawn_from_are_refused(files: WorldFiles) -> None:
    for weights in ([], [0.0, 0.0], [1.0, -0.5]):
        parts = make_parts(files, configured())
        parts.config.cold_start.search_weights = weights
        with pytest.raises(ConfigError, match="search_weights"):
            parts.batches()


def test_the_trainer_warms_up_and_decays_over_the_last_half() -> None:
    base = LearnerSettings(
        lr=1e-3, embedding_lr_scale=0.1, tp=2, kl_coef=0.1, micro_tokens=999, seed=3
    )
    learner = cold_start_learner(ColdStartSettings(steps=1000), base)
    check_settings(learner)
    assert (learner.lr, learner.beta2, learner.warmup_steps) == (4e-3, 0.98, 50)
    assert learner.embedding_lr_scale == 1.0
    assert (learner.decay_start, learner.decay_steps) == (500, 1000)
    assert (learner.tp, learner.micro_tokens, learner.seed) == (2, 999, 3)
    assert learner.kl_coef == 0.0 and base.kl_coef == 0.1


@pytest.mark.parametrize("steps", [1, 2, 30])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_any_number_of_steps_has_a_schedule(steps: int, share: float) -> None:
    asked = ColdStartSettings(steps=steps, decay_share=share)
    check_settings(cold_start_learner(asked, LearnerSettings()))
