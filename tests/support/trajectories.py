"""Runs a trajectory against a scripted engine and a search service."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from spader_slime.episode import Episode
from support.engine import ScriptedEngine
from support.loops import Stage, check_arrays
from support.search import ScriptedSearch
from support.templates import chat_tokenizer


def one_by_one(*texts: str) -> Callable[[str], str]:
    """A script for templates and protocols in which turns can't be counted in the text."""
    left = iter(texts)
    return lambda text: next(left)


async def run(
    search: ScriptedSearch,
    script: Callable[[str], str],
    style: str = "chatml",
    agent: dict[str, Any] | None = None,
    **changes: Any,
) -> tuple[Episode, Stage, ScriptedEngine]:
    """One trajectory; `changes` are fields of its context."""
    tokenizer = chat_tokenizer(style)
    with ScriptedEngine(tokenizer, script, "3") as engine:
        async with Stage(tokenizer, engine.url, search.endpoint, agent) as stage:
            episode = await stage.run(**changes)
    check_arrays(episode)
    assert Episode.from_dict(json.loads(json.dumps(episode.to_dict()))) == episode
    return episode, stage, engine
