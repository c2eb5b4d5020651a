"""The teacher's part in the advantages: against slow loops, cut for context parallelism, or not."""

from __future__ import annotations

from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.episodes import GOLD, episode
from support.lessons import distilling, gated, taught

from spader_slime import hooks, record
from spader_slime.algorithms.credit import assign_credit
from spader_slime.algorithms.teacher_scores import unpack
from spader_slime.algorithms.zigzag import slice_response
from spader_slime.config import SpaderConfig
from spader_slime.errors import DataError
from spader_slime.local.arguments import host_args
from spader_slime.local.sample import Sample
from spader_slime.megatron.distill import scores_of

TOP_K, VOCAB = 3, 31


@pytest.fixture
def samples() -> list[Sample]:
    """Peers as the hooks leave them: one removed, one that the teacher lost, one of two tokens."""
    made = [
        episode(["Oslo"], ["Bergen", "Bodø"], answer=["Oslo", "Bergen"]),
        episode(["Oslo"], answer=["Oslo"]),
        episode(["Bodø"], ["Oslo"], answer=["Rome"]),
        episode(["Bergen"], answer=["Tromsø"]),
        episode(answer=["Tromsø"]),
    ]
    made[1].prompt_ids = list(range(25))
    found = []
    for index, (one, credit) in enumerate(
        zip(made, assign_credit(made, GOLD, SpaderConfig(), 0), strict=True)
    ):
        sample = Sample(index=index, tokens=one.prompt_ids + one.response_ids, reward=credit.reward)
        sample.response_length, sample.loss_mask = len(one.response_ids), list(one.loss_mask)
        scores = taught(sample.tokens, one.loss_mask, VOCAB, TOP_K, index)
        sample.teacher_log_probs = scores.pack()  # type: ignore[assignment]
        record.close_episode(sample, one, evaluation=False)
        record.store_credit(sample, credit)
        found.append(sample)
    record.exclude(found[2])
    found[3].teacher_log_probs = None
    return found


def rewards_of(samples: list[Sample], spader: dict[str, Any]) -> Any:
    return hooks.post_process_rewards(host_args(sglang_router_port=1, spader=spader), samples)


def trainer_data(samples: list[Sample], rank: int, size: int, **options: Any) -> Any:
    """What one context-parallel rank is handed."""
    raw, rewards = rewards_of(samples, distilling(**options))
    lengths = [(len(sample.tokens), sample.response_length) for sample in samples]
    packed = [torch.as_tensor(sample.teacher_log_probs) for sample in samples]
    whole = [torch.randn(n, generator=torch.Generator().manual_seed(n)) - 2 for _, n in lengths]

    def own(values: list[torch.Tensor]) -> list[torch.Tensor]:
        return [slice_response(v, *n, rank, size) for v, n in zip(values, lengths, strict=True)]

    return {
        "tokens": [torch.tensor(sample.tokens) for sample in samples],
        "total_lengths": [total for total, _ in lengths],
        "response_lengths": [response for _, response in lengths],
        "loss_masks": [torch.tensor(sample.loss_mask) for sample in samples],
        "rewards": rewards,
        "raw_reward": raw,
        "partition": list(range(len(samples))),
        "teacher_log_probs": own(packed),
        "log_probs": own(whole),
        "rollout_log_probs": own([values - 1 for values in whole]),
    }


OPTIONS: list[dict[str, Any]] = [
    {},
    {"reverse_kl_coef": 0.3},
    {"task_reward": False},
    {"reverse": "opd"},
    {"reverse": "opd", "task_reward": False},
]


@pytest.mark.parametrize("old", ["log_probs", "rollout_log_probs", "no log_probs"])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_advantages(
    samples: list[Sample],
    options: dict[str, Any],
    size: int,
    old: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spader = distilling(**options)
    _, plain = rewards_of(samples, {})
    empty, seen = 0, 0
    for rank in range(size):
        monkeypatch.setattr(hooks, "context_place", lambda rank=rank: (rank, size))
        data = trainer_data(samples, rank, size, **options)
        if old == "no log_probs":
            del data["log_probs"]
        scores = [unpack(packed) for packed in data["teacher_log_probs"]]
        chosen = Namespace(spader=spader, use_rollout_logprobs=old == "rollout_log_probs")
        hooks.compute_advantages(chosen, data)
        students = data["log_probs" if old == "log_probs" else "rollout_log_probs"]
        for row, (sample, said) in enumerate(zip(samples, scores, strict=True)):
            cut = (len(sample.tokens), sample.response_length, rank, size)
            spa = slice_response(plain[row], *cut).tolist()
            advantages, teacher = [], []
            for t, student in enumerate(students[row].tolist()):
                weight, own = float(said.weight_T[t]), float(said.log_probs_T[t])
                subtracted = options.get("reverse_kl_coef", 1.0) * (student - own)
                kept = weight == 0 or options.get("reverse") == "opd"
                task = spa[t] * options.get("task_reward", True)
                advantages.append(task - (0.0 if kept else subtracted))
                teacher.append(own if weight else student)
                seen += bool(weight)
            empty += not advantages
            assert data["teacher_log_probs"][row].tolist() == teacher
            for key in ("advantages", "returns"):
                assert data[key][row].dtype == torch.float32
                assert data[key][row].tolist() == pytest.approx(advantages, abs=1e-6)
        for one, left in zip(scores, scores_of(data), strict=True):
            assert torch.equal(one.pack(), left.pack())
        assert data["rewards"] == data["raw_reward"]
    assert seen == sum(sum(samples[i].loss_mask or []) for i in (0, 1, 4))
    assert empty or size == 1


def test_a_group_of_equals_still_has_a_teacher(samples: list[Sample]) -> None:
    equals = samples[:1]
    record.notes(equals[0])["credit"]["advantages_S"] = [0.0, 0.0, 0.0]
    for spader, kept in ((distilling(), True), ({}, False)):
        args = host_args(sglang_router_port=1, spader=spader)
        args.spader_state = SimpleNamespace(filter_output=lambda keep, reason: keep)
        assert hooks.keep_informative_group(args, equals) is kept


def test_samples_without_scores_are_named(samples: list[Sample]) -> None:
    data = trainer_data(samples, 0, 1)
    del data["teacher_log_probs"]
    with pytest.raises(DataError, match=r"no teacher_log_probs.*distillation\.urls"):
        hooks.compute_advantages(Namespace(spader=distilling()), data)
    hooks.compute_advantages(Namespace(spader={}), data)
    assert "teacher_log_probs" not in data


def test_gates_of_a_batch_are_those_of_the_threshold(samples: list[Sample]) -> None:
    """The hook that slime calls is what gates."""
    before = [taught(s.tokens, s.loss_mask or [], VOCAB, TOP_K, s.index or 0) for s in samples]
    rewards_of(samples, distilling(entropy_threshold=1.0))
    for index in (0, 1, 4):
        found = unpack(torch.as_tensor(samples[index].teacher_log_probs))
        assert torch.equal(found.gate_T, gated(before[index], 1.0).gate_T)
