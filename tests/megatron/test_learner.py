"""One process: scores, training, and the folder that comes out of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.policies import make_rollout, transformers_log_probs, write_policy

from spader_slime.errors import CheckpointError, ConfigError, DataError
from spader_slime.megatron.learner import Learner
from spader_slime.megatron.settings import LearnerSettings, check_settings


@pytest.fixture
def learner(hf: Path) -> Iterator[Learner]:
    made = Learner(LearnerSettings(lr=3e-3, micro_tokens=150), hf)
    yield made
    made.close()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", ["qwen3", "qwen2", "llama"])
def test_scores_are_transformers_scores(family: str, tied: bool, tmp_path: Path) -> None:
    folder = write_policy(tmp_path / "hf", family, tied)
    learner = Learner(LearnerSettings(micro_tokens=100), folder)
    try:
        data = make_rollout(0)
        expected = transformers_log_probs(folder, data)
        for ours, theirs in zip(learner.log_probs(data), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
        exported = learner.export_hf(tmp_path / "out")
        before, after = (load_file(f / "model.safetensors") for f in (folder, exported))
        assert before.keys() == after.keys()
        assert all(torch.equal(before[name], after[name]) for name in before)
    finally:
        learner.close()


def test_the_exported_folder_is_the_trained_policy(learner: Learner, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    data = make_rollout(1)
    for _ in range(3):
        learner.supervised(data)
    for _ in range(2):  # the second replaces the first
        folder = learner.export_hf(tmp_path / "hf")
    expected = transformers_log_probs(folder, data)
    for ours, theirs in zip(learner.log_probs(data), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    original, exported = (AutoTokenizer.from_pretrained(f) for f in (learner.hf_dir, folder))
    assert exported.chat_template == original.chat_template
    assert exported("some text").input_ids == original("some text").input_ids
    assert json.loads((folder / "config.json").read_text())["dtype"] == "float32"
    assert [p.name for p in tmp_path.iterdir()] == ["hf"]


def test_supervised_steps_lower_the_loss(learner: Learner) -> None:
    data = make_rollout(2)
    losses = [learner.supervised(data)["loss"] for _ in range(12)]
    assert losses[-1] < losses[0] - 0.5 and losses == sorted(losses, reverse=True)


def test_training_makes_good_tokens_likelier(learner: Learner) -> None:
    data = make_rollout(3)
    data["rollout_log_probs"] = before = learner.log_probs(data)
    first = learner.train(data)
    after = learner.log_probs(data)
    gained = sum(
        float(((new - old) * advantage * mask).sum())
        for new, old, advantage, mask in zip(
            after, before, data["advantages"], data["loss_masks"], strict=True
        )
    )
    assert gained > 0
    assert first["logprob_gap"] < 1e-6 and first["clip_fraction"] == 0.0
    second = learner.train(data)
    assert second["logprob_gap"] > 1e-3 and second["loss"] < first["loss"]


def test_the_gap_is_measured_before_weights_move(learner: Learner) -> None:
    data = make_rollout(4, trajectories=2)
    scores = learner.log_probs(data)
    shift = [0.25 * mask for mask in data["loss_masks"]]
    data["rollout_log_probs"] = [s - d for s, d in zip(scores, shift, strict=True)]
    report = learner.train(data)
    assert report["logprob_gap"] == pytest.approx(0.25, abs=1e-5)
    assert report["logprob_gap_max"] == pytest.approx(0.25, abs=1e-5)
    assert report["tokens"] == sum(int(mask.sum()) for mask in data["loss_masks"])
    assert report["approx_kl"] == pytest.approx(-0.25, abs=1e-5)


def test_every_minibatch_is_an_optimizer_step(hf: Path) -> None:
    data = make_rollout(5, trajectories=6)
    learner = Learner(LearnerSettings(minibatches=3, old_log_probs="train"), hf)
    try:
        report = learner.train(data)
        assert report["steps"] == learner.optimizer.steps == 3
        # Old log-probabilities are those before the first step.
        assert report["approx_kl"] != 0.0
        nothing = {**data, "loss_masks": [mask * 0 for mask in data["loss_masks"]]}
        assert learner.train(nothing) == {"skipped": 0.0, "tokens": 0.0, "steps": 0.0}
        assert learner.optimizer.steps == 3
    finally:
        learner.close()


def test_the_reference_stays_where_it_was(hf: Path) -> None:
    data = make_rollout(6)
    del data["ref_log_probs"]
    learner = Learner(LearnerSettings(kl_coef=0.5, lr=1e-2), hf)
    try:
        before = learner.log_probs(data)
        assert learner.train(data)["kl"] == pytest.approx(0.0, abs=1e-6)
        assert learner.train(data)["kl"] > 1e-4
        for ours, theirs in zip(learner.reference_log_probs(data), before, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
    finally:
        learner.close()


@pytest.mark.parametrize("key", ["advantages", "rollout_log_probs"])
def test_missing_data_are_named(learner: Learner, key: str) -> None:
    data = make_rollout(7)
    del data[key]
    with pytest.raises(DataError, match=key):
        learner.train(data)


def test_a_gradient_that_is_not_finite_is_not_applied(learner: Learner) -> None:
    data = make_rollout(8)
    before = learner.log_probs(data)
    data["advantages"][0] = data["advantages"][0] * torch.inf
    assert learner.train(data)["skipped"] == 1.0
    assert all(map(torch.equal, learner.log_probs(data), before))


def test_models_that_do_not_fit_are_refused(hf: Path, tmp_path: Path) -> None:
    config = json.loads((hf / "config.json").read_text())
    weights = load_file(hf / "model.safetensors")
    changes = [
        ({"model_type": "gpt2"}, weights, "model_type 'gpt2' is not supported"),
        ({"hidden_act": "gelu"}, weights, "activation 'gelu'"),
        ({"vocab_size": 300}, weights, "do not fit embedding"),
        ({"num_key_value_heads": 4}, weights, "do not fit decoder.layers.0.self_attention"),
        ({"intermediate_size": 64}, weights, "do not fit decoder.layers.0.mlp"),
        ({"num_hidden_layers": 3}, weights, "no tensor named 'model.layers.2"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, weights, "rope_type"),
    ]
    for number, (change, tensors, message) in enumerate(changes):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({**config, **change}))
        save_file(tensors, folder / "model.safetensors")
        with pytest.raises(CheckpointError, match=message):
            Learner(LearnerSettings(), folder)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"not tensors")
    with pytest.raises(CheckpointError, match="unreadable weights"):
        Learner(LearnerSettings(), folder)


def test_settings_that_contradict_each_other_are_refused() -> None:
    good = LearnerSettings(lr_decay="linear", decay_start=5, decay_steps=10)
    check_settings(good)
    with pytest.raises(ConfigError, match="decay_steps"):
        check_settings(replace(good, decay_steps=5))
