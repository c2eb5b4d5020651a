"""Prompts in an order that depends on (seed, position) alone, so that an interrupted run goes on
with exactly the groups it would have seen."""

from __future__ import annotations

import copy
import json
import random
import re
from argparse import Namespace
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from spader_slime.algorithms.gold import as_gold
from spader_slime.errors import CheckpointError, DataError
from spader_slime.local.sample import Sample
from spader_slime.record import TIERS

_SLICE = re.compile(r"^(?P<path>.*)@\[(?P<start>\d*):(?P<stop>\d*)\]$")


def read_prompts(
    path: str,
    input_key: str = "prompt",
    label_key: str = "label",
    metadata_key: str = "metadata",
) -> list[Sample]:
    """Read a jsonl file of slime rows (`input_key`, `label_key`, `metadata_key`) or QAMPARI rows.

    `data.jsonl@[0:100]` reads the first hundred rows, as in slime.

    Raises:
        DataError: missing file, broken line, a row without question or answers, no rows at all.
    """
    match = _SLICE.match(path)
    start, stop = (match["start"], match["stop"]) if match else ("", "")
    name = match["path"] if match else path
    rows = islice(_rows(name), int(start or 0), int(stop) if stop else None)
    keys = (input_key, label_key, metadata_key)
    samples = [_sample(row, keys, f"{name}:{line}") for line, row in rows]
    if not samples:
        raise DataError(f"{path} holds no prompts")
    return samples


def _rows(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    if not Path(path).is_file():
        raise DataError(f"no prompt file at {path}")
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, _json(line, f"{path}:{number}")


def _json(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{where} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise DataError(f"{where} is not a JSON object")
    return row


def _sample(row: dict[str, Any], keys: tuple[str, str, str], where: str) -> Sample:
    input_key, label_key, metadata_key = keys
    try:
        if "question_text" in row and input_key not in row:
            return _qampari_sample(row)
        metadata = dict(row.get(metadata_key) or {})
        return Sample(prompt=row[input_key], label=as_gold(row[label_key]), metadata=metadata)
    except (KeyError, TypeError, DataError) as error:
        raise DataError(f"{where} lacks a question or its answers ({error!r})") from error


def _qampari_sample(row: dict[str, Any]) -> Sample:
    """Gold answers with their own name among the aliases; `tiers` (head, tail) kept beside."""
    answers = row["answer_list"]
    gold = [list(dict.fromkeys([a["answer_text"], *(a.get("aliases") or [])])) for a in answers]
    known = ("question_text", "answer_list", "metadata")
    metadata = {**(row.get("metadata") or {}), **{k: v for k, v in row.items() if k not in known}}
    if any("tier" in answer for answer in answers):
        metadata[TIERS] = [answer.get("tier") for answer in answers]
    return Sample(prompt=row["question_text"], label=as_gold(gold), metadata=metadata)


class DataSource:
    """Endless groups of `args.n_samples_per_prompt` copies of a prompt, epoch after epoch.

    Position p shows prompt p mod len of epoch p div len; every epoch has its own order, drawn from
    (`args.rollout_seed`, epoch). Groups put back by a partial rollout come first.
    """

    def __init__(self, args: Namespace, prompts: list[Sample] | None = None) -> None:
        self.args = args
        self.prompts = read_prompts(args.prompt_data) if prompts is None else prompts
        self.position = 0
        self.buffer: list[list[Sample]] = []
        self._epoch = -1
        self._order: list[int] = []

    def __len__(self) -> int:
        return len(self.prompts)

    def get_samples(self, num_samples: int) -> list[list[Sample]]:
        """The next `num_samples` groups: returned ones first, then new ones."""
        groups, self.buffer = self.buffer[:num_samples], self.buffer[num_samples:]
        return groups + [self._next_group() for _ in range(num_samples - len(groups))]

    def add_samples(self, samples: list[list[Sample]]) -> None:
        """Put unfinished groups back; they are handed out again before new ones."""
        self.buffer.extend(samples)

    def _next_group(self) -> list[Sample]:
        epoch, place = divmod(self.position, len(self.prompts))
        prompt = self.prompts[self._order_of(epoch)[place]]
        size, first = self.args.n_samples_per_prompt, self.position * self.args.n_samples_per_prompt
        group = [copy.deepcopy(prompt) for _ in range(size)]
        for offset, sample in enumerate(group):
            sample.group_index, sample.index = self.position, first + offset
        self.position += 1
        return group

    def _order_of(self, epoch: int) -> list[int]:
        if epoch != self._epoch:
            self._epoch, self._order = epoch, list(range(len(self.prompts)))
            if self.args.rollout_shuffle:
                random.Random(f"{self.args.rollout_seed}:{epoch}").shuffle(self._order)
        return self._order

    def state_dict(self) -> dict[str, Any]:
        """JSON-ready state: the position, and the unfinished groups of a partial rollout."""
        groups = [[sample.to_dict() for sample in group] for group in self.buffer]
        return {
            "position": self.position,
            "prompts": len(self.prompts),
            "seed": self.args.rollout_seed,
            "buffer": groups,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken.

        Raises:
            CheckpointError: the state belongs to another seed or another set of prompts.
        """
        for key, now in (("prompts", len(self.prompts)), ("seed", self.args.rollout_seed)):
            if state[key] != now:
                raise CheckpointError(f"checkpoint has {key} = {state[key]}, this run has {now}")
        self.position = state["position"]
        self.buffer = [[Sample.from_dict(s) for s in group] for group in state["buffer"]]
