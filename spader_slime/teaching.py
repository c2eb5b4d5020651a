"""A teacher's scores in a host's samples: asked for, gated, and never of the wrong shape.

They travel in `sample.teacher_log_probs`, packed (`algorithms/teacher_scores.py`); how the call
went is in `sample.metadata["spader"]["teacher"]`.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from spader_slime import adapter, runtime
from spader_slime.agent.teacher import TeacherClient
from spader_slime.algorithms.distillation import entropy_threshold
from spader_slime.algorithms.teacher_scores import SINGLES, TeacherScores, no_scores, unpack
from spader_slime.config import DistillationConfig
from spader_slime.episode import End
from spader_slime.record import TEACHER, notes

UNFINISHED = (End.ABORTED, End.INFRASTRUCTURE)


async def ask_teacher(args: Namespace, sample: Any, end: End, evaluation: bool) -> None:
    """Have a trajectory scored, if there is a teacher; lost and aborted ones are not.

    Faults of the teacher never raise: the sample then takes no part in distillation.
    """
    notes(sample).pop(TEACHER, None)
    sample.teacher_log_probs = None
    config = adapter.settings(args).distillation
    if evaluation or not config.active or end in UNFINISHED or not sample.response_length:
        return
    client, prompt = runtime.teacher(args), len(sample.tokens) - sample.response_length
    reply = await client.score(sample.tokens, prompt, sample.loss_mask)
    sample.teacher_log_probs = reply.scores.pack()
    notes(sample)[TEACHER] = {"fault": reply.fault, "seconds": reply.seconds}


def check_teacher(args: Namespace) -> None:
    """Compare the teacher's vocabulary with the student's before the process's first rollout.

    Raises:
        TeacherError: it is another one, or no server can be asked.
    """
    config = adapter.settings(args).distillation
    if config.active and id(config) not in _checked:
        tokenizer = adapter.host_state(args).tokenizer
        with ThreadPoolExecutor(1) as pool:  # the host's thread may have an event loop of its own
            pool.submit(asyncio.run, _check(config, tokenizer)).result()
        _checked[id(config)] = config  # kept, so its id stays taken


_checked: dict[int, DistillationConfig] = {}


async def _check(config: DistillationConfig, tokenizer: Any) -> None:
    client = TeacherClient(config, tokenizer)
    try:
        await client.check()
    finally:
        await client.close()


def gate_batch(samples: Sequence[Any], config: DistillationConfig) -> None:
    """Mark on every sample where the forward KL applies: where the teacher's entropy is above
    `entropy_threshold`, or above its `entropy_quantile` over all trained tokens of `samples`.

    What the loss does not see gets weight and gate 0. A sample that the teacher did not judge gets
    scores of the right shape that count nothing.
    """
    scores = [_scores(sample, config.top_k) for sample in samples]
    learned = [_learned(one, sample) for one, sample in zip(scores, samples, strict=True)]
    limit = config.entropy_threshold
    if limit is None:
        entropies = [one.entropy_T[on] for one, on in zip(scores, learned, strict=True)]
        limit = entropy_threshold(torch.cat([torch.zeros(0), *entropies]), config.quantile or 0.0)
    for sample, one, on in zip(samples, scores, learned, strict=True):
        gate_T = (on & (one.entropy_T > limit)).float()
        sample.teacher_log_probs = replace(one, weight_T=on.float(), gate_T=gate_T).pack()


def _scores(sample: Any, top_k: int) -> TeacherScores:
    packed = sample.teacher_log_probs
    if packed is not None:
        packed = torch.as_tensor(packed, dtype=torch.float32)
        if packed.shape == (sample.response_length, SINGLES + 2 * top_k):
            return unpack(packed)
    return no_scores(sample.response_length, top_k)


def _learned(scores: TeacherScores, sample: Any) -> Tensor:
    """Tokens that the teacher judged and the loss will see: a host may have masked some since."""
    mask_T = torch.as_tensor(sample.loss_mask) * (not sample.remove_sample)
    return (scores.weight_T > 0) & (mask_T > 0)
