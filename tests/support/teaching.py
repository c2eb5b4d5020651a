"""Trajectories to be scored, and what the scripted teacher must have said of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import torch

from spader_slime.agent.teacher import TeacherClient, TeacherReply
from spader_slime.algorithms.teacher_scores import TeacherScores
from spader_slime.config import DistillationConfig
from support.teacher import own_score, top_scores

QUICK_S = 0.001
TOP_K = 4

Trajectory = tuple[list[int], int, list[int]]  # ids, prompt length, loss mask


def client(urls: str | list[str], tokenizer: Any, **config: Any) -> TeacherClient:
    urls = [urls] if isinstance(urls, str) else urls
    fields: dict[str, Any] = {"urls": urls, "top_k": TOP_K, **config}
    return TeacherClient(DistillationConfig(**fields), tokenizer, backoff_s=QUICK_S)


def score(
    urls: str | list[str],
    tokenizer: Any,
    trajectories: Sequence[Trajectory],
    check: bool = False,
    **config: Any,
) -> list[TeacherReply]:
    """All at once."""

    async def run() -> list[TeacherReply]:
        teacher = client(urls, tokenizer, **config)
        try:
            if check:
                await teacher.check()
            return await asyncio.gather(*(teacher.score(*one) for one in trajectories))
        finally:
            await teacher.close()

    return asyncio.run(run())


def trajectory(seed: int, length: int = 9, prompt: int = 3) -> Trajectory:
    """Every third token of the response is an observation; the first id is the seed."""
    ids = [seed, *((seed + 5 * t) % 250 for t in range(1, prompt + length))]
    return ids, prompt, [int(t % 3 != 2) for t in range(length)]


def check_shape(scores: TeacherScores, length: int, top_k: int = TOP_K) -> None:
    for name in ("log_probs_T", "entropy_T", "weight_T", "gate_T"):
        assert getattr(scores, name).shape == (length,), name
        assert getattr(scores, name).dtype == torch.float32, name
    assert scores.ids_TK.shape == scores.log_probs_TK.shape == (length, top_k)
    assert scores.ids_TK.dtype == torch.int64 and scores.log_probs_TK.dtype == torch.float32
    assert not scores.gate_T.any()
    assert scores.pack().isfinite().all()


def check_aligned(scores: TeacherScores, ids: Sequence[int], prompt: int, vocab: int) -> None:
    """Every score is of its own position."""
    top_k = scores.ids_TK.shape[1]
    for t, position in enumerate(range(prompt, len(ids))):
        assert scores.log_probs_T[t].item() == own_score(position, ids[position])
        wanted = top_scores(position, top_k, vocab)
        assert scores.ids_TK[t].tolist() == [triple[1] for triple in wanted]
        assert scores.log_probs_TK[t].tolist() == torch.tensor([p for p, *_ in wanted]).tolist()


def check_lost(reply: TeacherReply, length: int, kind: str) -> None:
    check_shape(reply.scores, length)
    assert reply.fault == kind
    assert not reply.scores.weight_T.any()
