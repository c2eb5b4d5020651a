"""A teacher's servers, asked through the client that training uses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spader_slime.config import DistillationConfig
from spader_slime.doctor.facts import Reading, TeacherProbe
from spader_slime.errors import ConfigError, TeacherError

LONGEST_S = 30.0  # a call waits no longer than this, whatever `timeout_s` says
SCORED = 32  # ids


def probe_teachers(
    config: DistillationConfig, tokenizer: Reading[Any]
) -> Reading[tuple[TeacherProbe, ...]]:
    """One probe per address: its vocabulary against `tokenizer`'s, then scores of a few ids."""
    if not config.active:
        return Reading()
    if tokenizer.value is None:
        return Reading(missing=f"no tokenizer to compare with ({tokenizer.missing})")
    try:
        import torch  # noqa: F401  # the client needs it, the other checks do not
    except ImportError:
        return Reading(missing="torch is missing: pip install torch")
    return Reading(tuple(asyncio.run(_probe_each(config, tokenizer.value))))


async def _probe_each(config: DistillationConfig, tokenizer: Any) -> Sequence[TeacherProbe]:
    return await asyncio.gather(*(_probe(config, url, tokenizer) for url in config.urls))


async def _probe(config: DistillationConfig, url: str, tokenizer: Any) -> TeacherProbe:
    from spader_slime.agent.teacher import TeacherClient
    from spader_slime.agent.teacher_vocabulary import sampled_ids

    timeout_s = min(config.timeout_s, LONGEST_S)
    try:
        client = TeacherClient(
            replace(config, urls=[url], retries=0, timeout_s=timeout_s), tokenizer
        )
    except ConfigError as fault:
        return TeacherProbe(url, "address", str(fault))
    try:
        await client.check()
        ids = sampled_ids(tokenizer)[:SCORED]
        reply = await client.score(ids, 1, [1] * (len(ids) - 1))
        message = "it has the student's vocabulary, and its scores can't be used"
        return TeacherProbe(url, reply.fault or "", message if reply.fault else "", reply.seconds)
    except TeacherError as fault:
        return TeacherProbe(url, fault.kind, str(fault))
    finally:
        await client.close()
