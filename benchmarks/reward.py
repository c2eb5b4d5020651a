"""Exploration reward of one group, against a plain implementation written from the paper.

    python benchmarks/reward.py [--rounds 9]

A group is 16 trajectories x 12 observations of 8,000 characters of real text, half of them shared
by peers. The plain implementation lowercases, drops ASCII punctuation and articles, collapses
spaces, and searches every alias as a substring: its hits inside other words are counted as
`wrong`, the names that it misses as `missed` (both in (observation, entity) pairs).
"""

from __future__ import annotations

import argparse
import math
import re
import string

import numpy as np
from real_text import OBSERVATIONS, PEERS, group_observations
from real_text import gold_aliases as make_gold
from timing import interleaved, table

from spader_slime.algorithms.entities import EntityMatcher
from spader_slime.algorithms.reward import group_rewards
from spader_slime.config import RewardConfig

CONFIG, STEP = RewardConfig(), 150
PUNCTUATION = set(string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")


def plain_normalize(text: str) -> str:
    text = "".join(char for char in text.lower() if char not in PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", text).split())


def plain_found(text: str, names: list[list[str]]) -> set[int]:
    text = plain_normalize(text)
    return {e for e, aliases in enumerate(names) if any(alias in text for alias in aliases)}


def plain(group: list[list[str]], gold: list[list[str]]) -> list[list[float]]:
    """Rewards of the search steps, one query each."""
    names = [[plain_normalize(alias) for alias in aliases] for aliases in gold]
    found_GS = [[plain_found(text, names) for text in observations] for observations in group]
    peers = [0] * len(gold)
    for steps in found_GS:
        for entity in set().union(*steps):
            peers[entity] += 1
    cost = CONFIG.cost * (STEP - CONFIG.cost_free_steps) / CONFIG.cost_rampup_steps
    rewards = []
    for steps in found_GS:
        seen: set[int] = set()
        row = []
        for found in steps:
            worth = 0.0
            for e in found - seen:
                worth += CONFIG.alpha + CONFIG.beta * math.exp(-CONFIG.decay * (peers[e] - 1))
            row.append((worth - cost) / len(gold))
            seen |= found
        rewards.append(row)
    return rewards


def ours(group: list[list[str]], gold: list[list[str]]) -> np.ndarray:
    matcher = EntityMatcher(gold)
    found_GS = [[matcher.find(text) for text in observations] for observations in group]
    calls_GS = [[1] * len(observations) for observations in group]
    final_G = [0.0] * len(group)
    return group_rewards(found_GS, calls_GS, final_G, len(gold), CONFIG, STEP).rewards_GS


def disagreements(group: list[list[str]], gold: list[list[str]]) -> tuple[int, int]:
    """(observation, entity) pairs that only the plain one finds, and that only we find."""
    matcher = EntityMatcher(gold)
    names = [[plain_normalize(alias) for alias in aliases] for aliases in gold]
    pairs = [
        (plain_found(text, names), matcher.find(text))
        for row in group
        for text in dict.fromkeys(row)
    ]
    return sum(len(a - b) for a, b in pairs), sum(len(b - a) for a, b in pairs)


def measure(num_gold: int, rounds: int) -> list[str]:
    gold = make_gold(num_gold)
    group = group_observations(gold)
    times = interleaved(
        {"plain": lambda: plain(group, gold), "ours": lambda: ours(group, gold)}, rounds
    )
    wrong, missed = disagreements(group, gold)
    return [
        f"{num_gold} x 3",
        f"{times['plain']:.3f} s",
        f"{times['ours'] * 1e3:.1f} ms",
        f"{times['plain'] / times['ours']:.1f} x",
        str(wrong),
        str(missed),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    print(f"one group: {PEERS} trajectories x {OBSERVATIONS} observations of 8,000 characters")
    header = ["gold x aliases", "plain", "ours", "faster", "wrong", "missed"]
    print(table(header, [measure(num, rounds) for num in (10, 50, 200)]))


if __name__ == "__main__":
    main()
