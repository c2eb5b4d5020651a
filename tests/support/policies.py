"""Tiny policies in Hugging Face format, and random rollouts for them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spader_slime.megatron.decision_steps import attach_steps
from support.tokenizers import byte_tokenizer

VOCAB = 259  # odd: two tensor-parallel ranks need padding
KEYS = ("tokens", "response_lengths", "total_lengths", "loss_masks", "advantages")
KEYS += ("rollout_log_probs", "ref_log_probs")
Rollout = dict[str, list[Any]]


def write_policy(folder: Path, family: str = "qwen3", tied: bool = True, layers: int = 2) -> Path:
    """A random model made by transformers, with the byte tokenizer; weights of both signs of all
    sizes, norms not one, biases not zero."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        family,
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12 if family == "qwen3" else 8,
        max_position_embeddings=256,
        tie_word_embeddings=tied,
        eos_token_id=2,
    )
    torch.manual_seed(11)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.save_pretrained(folder)
    byte_tokenizer(folder)
    return folder


def make_rollout(seed: int, trajectories: int = 7, longest: int = 40) -> Rollout:
    """Random tokens, masks and values; the third trajectory has nothing to learn from."""
    source = torch.Generator().manual_seed(seed)
    data: Rollout = {key: [] for key in KEYS}
    for index in range(trajectories):
        prompt, response = (int(torch.randint(2, n, (1,), generator=source)) for n in (9, longest))
        mask = (torch.rand(response, generator=source) < 0.6).int()
        mask[int(torch.randint(response, (1,), generator=source))] = 1
        data["tokens"].append(torch.randint(VOCAB, (prompt + response,), generator=source))
        data["response_lengths"].append(response)
        data["total_lengths"].append(prompt + response)
        data["loss_masks"].append(mask * (index != 2))
        data["advantages"].append(torch.randn(response, generator=source))
        for key in ("rollout_log_probs", "ref_log_probs"):
            data[key].append(-5.5 + 0.4 * torch.randn(response, generator=source))
    return data


def with_steps(data: Rollout, seed: int) -> Rollout:
    """Decision steps of random lengths, as the advantage hook leaves them on `returns`."""
    source = torch.Generator().manual_seed(seed)
    data["rewards"], data["returns"] = [], [a.clone() for a in data["advantages"]]
    for advantages in data["advantages"]:
        number_T = (torch.rand(len(advantages), generator=source) < 0.3).cumsum(0) + 1
        data["rewards"].append(torch.stack([advantages, number_T.float()], 1))
    attach_steps(data, 0, 1)
    return data


def rows(data: Rollout, chosen: list[int]) -> Rollout:
    """The chosen trajectories."""
    return {key: [values[i] for i in chosen] for key, values in data.items()}


def transformers_log_probs(folder: Path, data: Rollout) -> list[Tensor]:
    """Log-probabilities of the masked response tokens, one sequence at a time; 0.0 elsewhere."""
    from transformers import AutoModelForCausalLM

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    results = []
    for tokens, response, mask in zip(
        data["tokens"], data["response_lengths"], data["loss_masks"], strict=True
    ):
        with torch.no_grad():
            scores = model(tokens[None]).logits[0, :-1].double().log_softmax(-1)
        picked = scores.gather(1, tokens[1:, None]).squeeze(1)[-response:]
        results.append((picked * mask).float())
    return results
