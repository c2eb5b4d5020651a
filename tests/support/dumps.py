"""A rollout dump as the host writes it: two prompts, three peers each."""

from __future__ import annotations

from pathlib import Path

import torch

from spader_slime.episode import End, Episode
from spader_slime.local.sample import Sample
from spader_slime.record import close_episode, store_credit
from support.episodes import GOLD, credited, episode

QUESTION = "Which cities are in Norway?"


def peers() -> list[Episode]:
    """A careful peer, a hasty one, and one whose search broke."""
    return [
        episode(["Oslo", "Bergen"], ["Bodø"], answer=["Oslo", "Bergen", "Bodø"]),
        episode(["Oslo"], answer=["Oslo", "Rome"]),
        episode(["Tromsø"], end=End.INFRASTRUCTURE, search_error="timeout"),
    ]


def write_dump(path: Path, groups: int = 2) -> Path:
    """Write the dump to `path`."""
    samples = []
    for group in range(groups):
        for place, (made, credit) in enumerate(credited(*peers())):
            sample = Sample(group, 3 * group + place, prompt=QUESTION, label=GOLD, tokens=[1, 2])
            close_episode(sample, made, evaluation=False)
            store_credit(sample, credit)
            samples.append(sample.to_dict())
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"rollout_id": 0, "samples": samples}, path)
    return path
