"""The embedded world's trajectories: its tokenizer, its search service, the cited protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.engine import ScriptedEngine
from support.loops import Stage, Turns
from support.search import ScriptedSearch
from transformers import AutoTokenizer

from spader_slime.agent.protocol import make_protocol
from spader_slime.config import AgentConfig
from spader_slime.episode import End
from spader_slime.local.world.build import WorldFiles, build_world
from spader_slime.retrieval.launch import SearchProcess

QUESTION = [{"role": "user", "content": "Which cities are in Mali?"}]
CITED = {"protocol": "spader_cited"}
SAID = (
    '<tool_call>["[0] Mali"]</tool_call>',
    '<tool_call>["[2] Sikasso Mali"]</tool_call>',
    '<answer>["[1] Bamako", "[2] Sikasso"]</answer>',
)
TEXT = """\
<|im_start|>user
Which cities are in Mali?<|im_end|>
<|im_start|>assistant
<tool_call>["[0] Mali"]</tool_call><|im_end|>
<|im_start|>tool
[1] Bamako
In Bamako, Mali.
[2] Sikasso
In Sikasso, Mali, near Bamako.
[3] Koutiala
In Sikasso, Mali, near Sikasso.<|im_end|>
<|im_start|>assistant
<tool_call>["[2] Sikasso Mali"]</tool_call><|im_end|>
<|im_start|>tool
[4] Sikasso
In Sikasso, Mali, near Bamako.
[5] Koutiala
In Sikasso, Mali, near Sikasso.
[6] Bougouni
In Sikasso, Mali, near Bamako.<|im_end|>
<|im_start|>assistant
<answer>["[1] Bamako", "[2] Sikasso"]</answer><|im_end|>"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    return build_world("small", tmp_path_factory.mktemp("world") / "small", seed=0)


@pytest.fixture(scope="module")
def search_url(world: WorldFiles) -> Iterator[str]:
    with SearchProcess(world.index) as service:
        yield service.url


async def test_a_whole_trajectory(world: WorldFiles, search_url: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(world.tokenizer)
    with ScriptedEngine(tokenizer, Turns(*SAID)) as engine:
        async with Stage(tokenizer, engine.url, search_url, CITED, {"top_k": 3}) as stage:
            episode = await stage.run(prompt_ids=stage.boundary.prompt_ids(QUESTION))
            ids = episode.prompt_ids + episode.response_ids
            assert stage.boundary.decode(ids) == TEXT
            assert stage.boundary.encode(TEXT) == ids and len(ids) == 110
    assert (episode.end, episode.answer) == (End.ANSWERED, ["Bamako", "Sikasso"])
    assert [turn.queries for turn in episode.turns] == [("Mali",), ("Sikasso Mali",), ()]


async def test_being_told_to_answer_costs_two_tokens(world: WorldFiles) -> None:
    """A line break and the note; the same for the note that results were cut."""
    tokenizer = AutoTokenizer.from_pretrained(world.tokenizer)
    protocol, lengths = make_protocol(AgentConfig(**CITED)), {}
    with (
        ScriptedSearch(lambda query: [("Bamako", "In Bamako, Mali.")]) as search,
        ScriptedEngine(tokenizer, Turns(SAID[0], SAID[2])) as engine,
    ):
        for turns in (2, 3):
            agent = {**CITED, "max_turns": turns}
            async with Stage(tokenizer, engine.url, search.endpoint, agent) as stage:
                episode = await stage.run(prompt_ids=stage.boundary.prompt_ids(QUESTION))
            lengths[turns] = episode.turns[0].observation_tokens
            text = stage.boundary.decode(episode.response_ids)
            assert (protocol.answer_now in text) is (turns == 2)
    assert lengths[2] == lengths[3] + 2
    assert len(stage.boundary.encode(f"\n{protocol.cut_note}")) == 2
