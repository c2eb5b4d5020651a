"""Rollout dumps read back: the peers of every prompt, with what each step found and earned."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from spader_slime.algorithms.credit import Credit
from spader_slime.algorithms.entities import EntityMatcher
from spader_slime.algorithms.gold import as_gold
from spader_slime.episode import Episode
from spader_slime.errors import DataError
from spader_slime.record import KEY


@dataclass(frozen=True)
class Peer:
    """One trajectory.

    Attributes:
        index: the sample's number in the data order.
        new_S: names of the gold entities that each decision step showed for the first time.
    """

    index: int
    episode: Episode
    credit: Credit
    new_S: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Group:
    """All trajectories of one prompt; `gold` holds the first alias of every answer."""

    index: int
    question: str
    gold: tuple[str, ...]
    peers: tuple[Peer, ...]


def read_dump(path: Path) -> list[Group]:
    """The groups of a dump, in the order of the file.

    Nothing in the file is executed: only tensors and plain containers are accepted.

    Raises:
        DataError: missing, damaged, holding other objects, or without episodes of ours.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        samples = list(content["samples"])
        return [_group(rows) for rows in _by_prompt(samples)]
    except pickle.UnpicklingError as error:
        raise DataError(f"{path} holds more than plain data, which is not loaded") from error
    except (OSError, RuntimeError, EOFError, KeyError, TypeError) as error:
        raise DataError(f"{path} is no rollout dump of spader_slime ({error!r})") from error


def _by_prompt(samples: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Training groups have a number; the samples of an evaluation share their prompt."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for sample in samples:
        number = sample.get("group_index")
        key = json.dumps(sample["prompt"]) if number is None else str(number)
        groups.setdefault(key, []).append(sample)
    return list(groups.values())


def _group(samples: Sequence[dict[str, Any]]) -> Group:
    first = samples[0]
    gold = as_gold(first["label"])
    matcher, names = EntityMatcher(gold), tuple(aliases[0] for aliases in gold)
    peers = tuple(_peer(sample, matcher, names) for sample in samples)
    return Group(int(first.get("group_index") or 0), _question(first["prompt"]), names, peers)


def _peer(sample: dict[str, Any], matcher: EntityMatcher, names: Sequence[str]) -> Peer:
    notes = sample["metadata"][KEY]
    episode = Episode.from_dict(notes["episode"])
    seen: set[int] = set()
    new_S = []
    for turn in episode.turns:
        found = matcher.find_in_documents(turn.documents) - seen
        new_S.append(tuple(names[number] for number in sorted(found)))
        seen |= found
    credit = Credit.from_dict(notes["credit"])
    return Peer(int(sample.get("index") or 0), episode, credit, tuple(new_S))


def _question(prompt: Any) -> str:
    if isinstance(prompt, str):
        return prompt
    return str(prompt[-1]["content"])
