"""Other architectures, and prompts filled in several parts, straight through the scheduler."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch
from support.engines import plain_log_probs, plain_model, prompt
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3MoeConfig,
)

from spader_slime.errors import EngineError
from spader_slime.local.engine import steps
from spader_slime.local.engine.jobs import Result
from spader_slime.local.engine.prompts import Limits
from spader_slime.local.engine.scheduler import Scheduler
from spader_slime.local.engine.serve import load
from spader_slime.local.engine.wire import parse_generate

SIZES: dict[str, Any] = {
    "vocab_size": 80,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
}
CONFIGS = {
    "llama": LlamaConfig(**SIZES),
    "qwen2": Qwen2Config(**SIZES),
    "mistral, window of 8": MistralConfig(**SIZES, sliding_window=8),
    "qwen3 moe": Qwen3MoeConfig(
        **SIZES, moe_intermediate_size=16, num_experts=4, num_experts_per_tok=2, head_dim=8
    ),
}


def save(config: Any, folder: Path, seed: int) -> Path:
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.mul_(2)  # far from uniform
    model.save_pretrained(folder)
    return folder


def run(scheduler: Scheduler, prompts: list[list[int]], **params: Any) -> list[Result]:
    limits, futures = Limits(128, 80, None), []
    for seed, ids in enumerate(prompts):
        body = {"input_ids": ids, "return_logprob": True, "logprob_start_len": 0}
        seeded = {"sampling_seed": seed, **params}
        (request,), _ = parse_generate(body | {"sampling_params": seeded}, limits)
        future: Future[Result] = Future()
        scheduler.submit(request, future.set_result)
        futures.append(future)
    return [future.result(60) for future in futures]


def check(model: Any, prompts: list[list[int]], results: list[Result]) -> None:
    for ids, result in zip(prompts, results, strict=True):
        plain = plain_log_probs(model, [*ids, *result.ids])
        chosen = [*ids[1:], *result.ids]
        expected = plain[range(len(chosen)), chosen].tolist()
        found = [p for p, _ in result.input.tokens] + result.log_probs
        assert found == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("name", CONFIGS)
def test_log_probs_and_new_weights(name: str, tmp_path: Path) -> None:
    folders = [save(CONFIGS[name], tmp_path / str(seed), seed) for seed in (0, 1)]
    scheduler, _ = load(folders[0], 4, 128)
    scheduler.start()
    try:
        prompts = [prompt(5 + 7 * i, i, vocab=80) for i in range(6)]
        check(plain_model(folders[0]), prompts, run(scheduler, prompts, max_new_tokens=12))
        scheduler.update_weights(folders[1], None).result(60)
        check(plain_model(folders[1]), prompts, run(scheduler, prompts, max_new_tokens=12))
    finally:
        scheduler.stop()


@pytest.mark.parametrize(("fill", "scored"), [(7, 10**6), (1000, 80 * 16), (16, 80 * 16)])
def test_prompts_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fill: int, scored: int
) -> None:
    monkeypatch.setattr(steps, "MAX_FILL", fill)
    monkeypatch.setattr(steps, "MAX_SCORED", scored)
    folder = save(CONFIGS["llama"], tmp_path, 0)
    scheduler, _ = load(folder, 4, 128)
    scheduler.start()
    try:
        prompts = [prompt(3 + 19 * i, i, vocab=80) for i in range(6)]
        check(plain_model(folder), prompts, run(scheduler, prompts, max_new_tokens=10))
    finally:
        scheduler.stop()


def test_what_keeps_no_keys_and_values_is_refused(tmp_path: Path) -> None:
    config = MambaConfig(vocab_size=80, hidden_size=16, num_hidden_layers=1, state_size=4)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(EngineError):
        load(tmp_path, 4, 128)


def test_a_context_that_no_memory_holds(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="smaller context"):
        load(save(CONFIGS["llama"], tmp_path, 0), 4, 10**12)
