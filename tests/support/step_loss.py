"""Trajectories of decision steps for a toy policy, and the policy loss written from its definition.

The toy policy scores the next token from the last one: logits = table[token] + noise of the
position. Its only parameter is the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from spader_slime.algorithms.spreading import spread_with_steps

VOCAB = 11
Data = dict[str, Any]

# Prompt tokens, (sampled, observed) tokens of each turn, masked tokens where the response starts.
SHAPES: list[tuple[int, list[tuple[int, int]], int]] = [
    (5, [(7, 4), (3, 6), (9, 0)], 0),
    (61, [(4, 3), (1, 0)], 0),  # nearly all prompt
    (9, [(1, 0)], 0),  # one token
    (3, [(20, 10), (2, 30), (5, 0)], 0),  # steps across the chunks of context parallelism
    (50, [(1, 0)], 0),
    (4, [(6, 2), (0, 0), (5, 0)], 0),  # a turn of no tokens
    (8, [(12, 3), (4, 0)], 9),  # resumed: tokens of an older policy are masked
    (6, [(5, 0)], 5),  # lost
]
# Samples of each optimizer step; ranks hold the even and the odd ones.
OPTIMIZER_STEPS = ([0, 1, 2, 3, 4, 5], [6, 7])


@dataclass(frozen=True)
class Coefficients:
    """Of slime's arguments."""

    eps_clip: float = 0.2
    eps_clip_high: float = 0.28
    eps_clip_c: float | None = 1.5
    entropy_coef: float = 0.03
    kl_loss_coef: float = 0.1


def make_data(noise: float = 1.0) -> Data:
    """All samples under slime's keys, as rank-less tensors of the whole response, and `noise`."""
    source = torch.Generator().manual_seed(7)
    table, data = make_table(torch.float64).detach(), {"spans": [], "noise": []}  # type: ignore[var-annotated]
    keys = ("tokens", "total_lengths", "response_lengths", "rewards", "loss_masks", "raw_reward")
    data |= {key: [] for key in (*keys, "log_probs", "ref_log_probs", "rollout_log_probs")}
    for prompt, turns, hidden in SHAPES:
        spans, mask = _layout(turns)
        response = len(mask)
        mask[:hidden] = [0] * hidden
        data["tokens"].append(torch.randint(VOCAB, (prompt + response,), generator=source))
        data["noise"].append(noise * torch.randn(prompt + response, VOCAB, generator=source))
        data["total_lengths"].append(prompt + response)
        data["response_lengths"].append(response)
        data["loss_masks"].append(torch.tensor(mask, dtype=torch.int))
        data["spans"].append(spans)
        advantages = torch.randn(len(spans), generator=source).tolist()
        data["rewards"].append(torch.from_numpy(spread_with_steps(advantages, spans, response)))
        data["raw_reward"].append(float(prompt))
        now = log_softmax(data, table, len(data["tokens"]) - 1)[0].float()
        for key in ("log_probs", "ref_log_probs", "rollout_log_probs"):
            data[key].append(now + 0.4 * torch.randn(response, generator=source))
    data["rollout_mask_sums"] = torch.stack([mask.sum() for mask in data["loss_masks"]]).float()
    return data


def _layout(turns: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[int]]:
    spans, mask = [], list[int]()
    for sampled, observed in turns:
        spans.append((len(mask), len(mask) + sampled))
        mask += [1] * sampled + [0] * observed
    return spans, mask


def make_table(dtype: torch.dtype) -> Tensor:
    """The toy policy's parameter."""
    source = torch.Generator().manual_seed(1)
    return torch.randn(VOCAB, VOCAB, generator=source).to(dtype).requires_grad_()


def logits_of(data: Data, table: Tensor, sample: int) -> Tensor:
    """[total, V], at every position of the sample."""
    return table[data["tokens"][sample]] + data["noise"][sample].to(table.dtype)


def log_softmax(data: Data, table: Tensor, sample: int) -> tuple[Tensor, Tensor]:
    """Log-probs and entropies of the whole response."""
    response = data["response_lengths"][sample]
    scores_TV = logits_of(data, table, sample)[-response - 1 : -1].log_softmax(-1)
    targets = data["tokens"][sample][-response:, None]
    return scores_TV.gather(1, targets)[:, 0], -(scores_TV.exp() * scores_TV).sum(-1)


def slow_loss(
    data: Data, table: Tensor, samples: list[int], ratio: str, aggregate: str, asked: Coefficients
) -> tuple[Tensor, dict[str, float]]:
    """Loss and metrics of one optimizer step, token by token, in the table's precision."""
    total: dict[str, Tensor] = {}
    steps = sum(bool(_trained(data, i, span)) for i in samples for span in data["spans"][i])
    for i in samples:
        new, entropy = log_softmax(data, table, i)
        old, ref, engine = (
            data[key][i].to(table.dtype)
            for key in ("log_probs", "ref_log_probs", "rollout_log_probs")
        )
        for span in data["spans"][i]:
            trained = _trained(data, i, span)
            for t in trained:
                log_ratio = new[t] - old[t]
                if ratio == "step":
                    log_ratio = sum(new[u] - old[u] for u in trained) / len(trained)  # type: ignore[assignment]
                advantage = data["rewards"][i][t, 0].to(table.dtype)
                surrogate, clipped = _surrogate(log_ratio, advantage, asked)
                terms = {
                    "pg_loss": surrogate,
                    "pg_clipfrac": clipped,
                    "entropy_loss": entropy[t],
                    "ppo_kl": -log_ratio,
                    "kl_loss": (ref[t] - new[t]).exp() - 1 - (ref[t] - new[t]),
                    "train_rollout_logprob_abs_diff": (old[t] - engine[t]).abs(),
                }
                share = 1 / float(data["rollout_mask_sums"][i]) / len(samples)
                if aggregate == "step":
                    share = 1 / len(trained) / steps
                for name, value in terms.items():
                    total[name] = total.get(name, torch.zeros(())) + share * value
    loss = total["pg_loss"] - asked.entropy_coef * total["entropy_loss"]
    loss = loss + asked.kl_loss_coef * total["kl_loss"]
    return loss, {"loss": loss.item()} | {name: value.item() for name, value in total.items()}


def _trained(data: Data, sample: int, span: tuple[int, int]) -> list[int]:
    return [t for t in range(*span) if data["loss_masks"][sample][t]]


def _surrogate(log_ratio: Tensor, advantage: Tensor, asked: Coefficients) -> tuple[Tensor, Tensor]:
    ratio = log_ratio.exp()
    low, high = 1 - asked.eps_clip, 1 + asked.eps_clip_high
    bounded = min(max(ratio.item(), low), high)
    clipped = ratio if low <= ratio.item() <= high else torch.tensor(bounded, dtype=ratio.dtype)
    objective = torch.minimum(ratio * advantage, clipped * advantage)
    held = (clipped * advantage < ratio * advantage).to(ratio.dtype)
    if asked.eps_clip_c is not None and advantage < 0:
        objective = torch.maximum(objective, asked.eps_clip_c * advantage)
    return -objective, held
