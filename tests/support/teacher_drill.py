"""Teacher faults in turn over many trajectories, and what has to hold after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import torch

from spader_slime import record
from spader_slime.algorithms.teacher_scores import SINGLES, TeacherScores, unpack
from spader_slime.episode import End
from spader_slime.errors import TEACHER_ERROR_KINDS
from support.hosts import REPLIES, TownScript
from support.teacher import FAULTS, own_score, top_scores
from support.tokenizers import byte_tokenizer

WORDS, TOP_K = byte_tokenizer(), 4


class Dice:
    """Every other call of the teacher meets a fault, all kinds in turn; the same ids the same."""

    def __init__(self) -> None:
        self._names = cycle([name for fault in FAULTS for name in (fault, "")])
        self.met: dict[tuple[int, ...], str] = {}

    def __call__(self, ids: list[int]) -> str:
        key = tuple(ids)
        if key not in self.met:
            self.met[key] = next(self._names)
        return self.met[key]


class Talkative(TownScript):
    """Thinks something new in every trajectory, so that no two are the same."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = list(REPLIES)

    def __call__(self, text: str) -> str:
        thought = f"<think>{len(self.said)}</think>"
        said = super().__call__(text)
        self.said.append(said if "<think>" in said else thought + said)
        return self.said[-1]


def note(sample: Any) -> dict[str, Any]:
    """How the teacher's call went; empty where it was not asked."""
    return dict(record.notes(sample).get(record.TEACHER) or {})


def check_taught(samples: Sequence[Any], numbers: dict[str, float], dice: Dice) -> None:
    """After the rewards hook: of every sample what its own call met; and the counts."""
    met: list[str | None] = []
    for sample in samples:
        packed = torch.as_tensor(sample.teacher_log_probs)
        assert packed.shape == (sample.response_length, SINGLES + 2 * TOP_K)
        scores = unpack(packed)
        if record.episode_of(sample).end in (End.ABORTED, End.INFRASTRUCTURE):
            assert not note(sample) and tuple(sample.tokens) not in dice.met
            assert not packed.any()
            continue
        fault = FAULTS.get(dice.met.get(tuple(sample.tokens), ""))
        met.append(fault)
        assert note(sample)["fault"] == fault
        assert scores.weight_T.tolist() == [on * (fault is None) for on in sample.loss_mask or []]
        assert not (scores.gate_T > scores.weight_T).any()
        if fault is None and tuple(sample.tokens) in dice.met:
            check_aligned(sample, scores)
    lost = Counter(fault for fault in met if fault)
    assert numbers["spader/distill/scored"] == len(met)
    assert numbers["spader/distill/lost_share"] == sum(lost.values()) / len(met)
    for kind in TEACHER_ERROR_KINDS:
        assert numbers[f"spader/distill/lost/{kind}"] == lost[kind]


def check_aligned(sample: Any, scores: TeacherScores) -> None:
    """Every row tells the position and the token that it is of."""
    first = len(sample.tokens) - sample.response_length
    for row in range(sample.response_length):
        place = first + row
        assert scores.log_probs_T[row].item() == own_score(place, sample.tokens[place])
        wanted = top_scores(place, TOP_K, len(WORDS))
        assert scores.ids_TK[row].tolist() == [token for _, token, _ in wanted]
