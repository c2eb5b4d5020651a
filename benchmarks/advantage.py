"""Step-wise peer advantage with spreading over tokens, against a per-token loop.

    python benchmarks/advantage.py [--rounds 9]

The loop is the paper's section written down plainly over the tensors that a trainer has: one
reward tensor and one mask over response tokens, whose steps are found token by token. `write once`
is the cost of writing a result of the same size into fresh memory: no method can be faster.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from timing import interleaved, table

from spader_slime.algorithms.advantage import spread_batch, step_peer_advantage

WIDTH, PEERS, MAX_STEPS, GAMMA, EPS = 8192, 16, 16, 0.9, 1e-6

try:
    import torch

    def as_tensor(values: Any) -> Any:
        return torch.from_numpy(values)
except ImportError:  # the loop then runs over numpy arrays, whose .item() is cheaper

    def as_tensor(values: Any) -> Any:
        return values


class Batch:
    """`num` responses of up to 8192 tokens: turns of tokens, observations between them."""

    def __init__(self, num: int, seed: int = 0) -> None:
        draw = np.random.default_rng(seed)
        self.group_N = np.arange(num) // PEERS
        self.num_steps_N = draw.integers(1, MAX_STEPS + 1, size=num)
        self.rewards_NS = np.where(
            np.arange(MAX_STEPS) < self.num_steps_N[:, None], draw.random((num, MAX_STEPS)), 0.0
        )
        self.spans_N = [self._spans(draw, int(steps)) for steps in self.num_steps_N]
        self.lengths_N = [spans[-1][1] for spans in self.spans_N]
        self._tokens()

    @staticmethod
    def _spans(draw: np.random.Generator, steps: int) -> list[tuple[int, int]]:
        ends = np.sort(draw.choice(np.arange(1, WIDTH), size=2 * steps - 1, replace=False))
        borders = [0, *ends.tolist()]
        return list(zip(borders[::2], borders[1::2], strict=True))

    def _tokens(self) -> None:
        mask_NT = np.zeros((len(self.spans_N), WIDTH), dtype=np.int64)
        rewards_NT = np.zeros((len(self.spans_N), WIDTH), dtype=np.float32)
        for row, spans in enumerate(self.spans_N):
            for step, (start, end) in enumerate(spans):
                mask_NT[row, start:end] = 1
                rewards_NT[row, end - 1] = self.rewards_NS[row, step]
        self.mask_NT, self.token_rewards_NT = as_tensor(mask_NT), as_tensor(rewards_NT)


def plain(batch: Batch) -> Any:
    """Find the steps by reading the mask token by token, then give every span its advantage."""
    returns, spans = [], []
    for mask_T, rewards_T in zip(batch.mask_NT, batch.token_rewards_NT, strict=True):
        row_returns, row_spans = returns_to_go(mask_T, rewards_T)
        returns.append(row_returns)
        spans.append(row_spans)
    advantages_NT = np.zeros((len(spans), WIDTH), dtype=np.float32)
    for group in set(batch.group_N.tolist()):
        peers = [i for i in range(len(spans)) if batch.group_N[i] == group]
        statistics_S = [_by_step(returns, peers, step) for step in range(MAX_STEPS)]
        for i in peers:
            for step, (start, end) in enumerate(spans[i]):
                mean, scale = statistics_S[step]
                advantages_NT[i, start:end] = (returns[i][step] - mean) / scale
    return advantages_NT


def returns_to_go(mask_T: Any, rewards_T: Any) -> tuple[list[float], list[tuple[int, int]]]:
    """One `.item()` per token finds where the steps are."""
    spans: list[tuple[int, int]] = []
    start = None
    for t in range(len(mask_T)):
        inside = mask_T[t].item()
        if inside and start is None:
            start = t
        elif not inside and start is not None:
            spans.append((start, t))
            start = None
    if start is not None:
        spans.append((start, len(mask_T)))
    returns = [rewards_T[end - 1].item() for _, end in spans]
    for step in reversed(range(len(returns) - 1)):
        returns[step] += GAMMA * returns[step + 1]
    return returns, spans


def _by_step(returns: list[list[float]], peers: list[int], step: int) -> tuple[float, float]:
    values = [returns[i][step] if step < len(returns[i]) else 0.0 for i in peers]
    mean = sum(values) / len(values)
    return mean, (sum((v - mean) ** 2 for v in values) / len(values) + EPS) ** 0.5


def ours(batch: Batch) -> Any:
    advantages_NS, _ = step_peer_advantage(
        batch.rewards_NS, batch.num_steps_N, batch.group_N, GAMMA, EPS
    )
    return spread_batch(advantages_NS, batch.spans_N, batch.lengths_N, WIDTH)


def write_once(batch: Batch) -> Any:
    return np.full((len(batch.spans_N), WIDTH), 1.0, dtype=np.float32)


def measure(num: int, rounds: int) -> list[str]:
    batch = Batch(num)
    np.testing.assert_allclose(ours(batch), plain(batch), rtol=1e-4, atol=1e-4)
    slow = interleaved({"plain": lambda: plain(batch)}, 1)["plain"]
    fast = interleaved(
        {
            "ours": lambda: ours(batch),
            "steps": lambda: step_peer_advantage(
                batch.rewards_NS, batch.num_steps_N, batch.group_N, GAMMA, EPS
            ),
            "write": lambda: write_once(batch),
        },
        rounds,
        {"ours": 5, "steps": 20, "write": 5},
    )
    return [
        f"{num} x {WIDTH}",
        f"{slow:.3f} s",
        f"{fast['ours'] * 1e3:.2f} ms",
        f"{fast['steps'] * 1e3:.2f} ms",
        f"{fast['write'] * 1e3:.2f} ms",
        f"{slow / fast['ours']:.0f} x",
        f"{fast['ours'] / fast['write']:.1f} x",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    header = ["tokens", "plain loop", "ours", "of it steps", "write once", "faster", "of a write"]
    print(table(header, [measure(num, rounds) for num in (64, 512)]))


if __name__ == "__main__":
    main()
