"""A script is, token for token, what the agent loop records when an engine says the same."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from support.engine import ScriptedEngine
from support.scripts import Parts, configured, make_parts, with_agent

from spader_slime.agent.budget import make_budget
from spader_slime.agent.loop import LoopContext, run_episode
from spader_slime.agent.policy import PolicyClient
from spader_slime.agent.search import SearchClient
from spader_slime.config import SearchConfig
from spader_slime.episode import End, Episode
from spader_slime.local.scripts import Script
from spader_slime.local.settings import TrainConfig
from spader_slime.local.world.build import WorldFiles
from spader_slime.retrieval.launch import SearchProcess

TURN = "<|im_start|>assistant"


@pytest.fixture(scope="module")
def search_url(files: WorldFiles) -> Iterator[str]:
    with SearchProcess(files.index) as search:
        yield search.url


async def replayed(parts: Parts, script: Script, search_url: str) -> Episode:
    """The episode of a policy that says what the script says."""
    config = parts.config
    turns = dict(enumerate(script.turns, 1))
    found: SearchConfig = config.spader.search
    search = SearchClient(SearchConfig([search_url], found.top_k, found.initial_k, found.max_chars))
    with ScriptedEngine(parts.tokenizer, lambda text: turns[text.count(TURN)]) as engine:
        policy = PolicyClient(engine.url)
        agent, rollout = config.spader.agent, config.rollout
        context = LoopContext(
            policy=policy,
            search=search,
            protocol=parts.protocol,
            boundary=parts.boundary,
            budget=make_budget(agent, rollout.max_response_tokens, rollout.max_context),
            agent=agent,
            prompt_ids=script.prompt_ids,
            sampling_params={"temperature": 1.0},
        )
        episode = await run_episode(context)
        await policy.close()
    await search.close()
    return episode


TIGHT = configured(rollout={"max_response_tokens": 260, "max_context": 300})


@pytest.mark.parametrize(
    ("config", "searches"),
    [
        (configured(), 1),
        (configured(), 4),
        (configured(), 7),
        (with_agent(max_turns=3), 7),
        (TIGHT, 7),
    ],
    ids=["one", "four", "to the last turn", "few turns", "few tokens"],
)
async def test_a_script_equals_its_episode(
    files: WorldFiles, search_url: str, config: TrainConfig, searches: int
) -> None:
    parts = make_parts(files, config)
    rng = random.Random(searches)
    for question in rng.sample(parts.guide.questions, 3):
        script = parts.curriculum.searching(rng, question, searches)
        episode = await replayed(parts, script, search_url)
        assert episode.end is End.ANSWERED
        assert episode.prompt_ids == script.prompt_ids
        assert episode.response_ids == script.response_ids
        assert episode.loss_mask == script.loss_mask
        shown = [document for turn in episode.turns for document in turn.documents]
        assert shown == script.documents
        assert not any(turn.cut for turn in episode.turns)
