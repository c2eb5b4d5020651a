"""A trajectory in the embedded world: real tokenizer, real index, every character of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.engine import ScriptedEngine
from support.loops import Stage, Turns, check_arrays, spans_text
from transformers import AutoTokenizer

from spader_slime.episode import Document, End
from spader_slime.local.world.build import WorldFiles, build_world
from spader_slime.retrieval.launch import SearchProcess

QUESTION = "Which cities are in Mali?"
SAID = (
    '<tool_call>["[0] Mali"]</tool_call>',
    '<tool_call>["[2] Sikasso Mali"]</tool_call>',
    '<answer>["[1] Bamako", "[2] Sikasso"]</answer>',
)
WHOLE = """\
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
AGENT = {"protocol": "spader_cited", "max_observation_tokens": 96, "answer_reserve": 96}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    return build_world("small", tmp_path_factory.mktemp("agent-world") / "small", seed=0)


@pytest.fixture(scope="module")
def tokenizer(files: WorldFiles) -> Any:
    return AutoTokenizer.from_pretrained(files.tokenizer)


@pytest.fixture(scope="module")
def search_url(files: WorldFiles) -> Iterator[str]:
    with SearchProcess(files.index) as search:
        yield search.url


def stage_for(tokenizer: Any, engine: ScriptedEngine, url: str, **agent: int) -> Stage:
    return Stage(tokenizer, engine.url, url, AGENT | agent, {"top_k": 3, "initial_k": 3})


async def test_a_whole_trajectory_is_this_text(tokenizer: Any, search_url: str) -> None:
    with ScriptedEngine(tokenizer, Turns(*SAID)) as engine:
        async with stage_for(tokenizer, engine, search_url) as stage:
            prompt = stage.boundary.prompt_ids(stage.protocol.messages(QUESTION))
            episode = await stage.run(prompt_ids=prompt)
    check_arrays(episode)
    ids = episode.prompt_ids + episode.response_ids
    assert stage.boundary.decode(ids) == WHOLE
    assert ids == tokenizer.encode(WHOLE, add_special_tokens=False)
    assert len(ids) == 110 and episode.end is End.ANSWERED
    assert spans_text(stage, episode) == [f"{text}<|im_end|>" for text in SAID]
    assert [turn.queries for turn in episode.turns] == [("Mali",), ("Sikasso Mali",), ()]
    assert episode.turns[0].documents[0] == Document("Bamako", "In Bamako, Mali.")
    assert episode.answer == ["Bamako", "Sikasso"]


async def test_being_told_to_answer_is_cheap(tokenizer: Any, search_url: str) -> None:
    """One line after the results, of two tokens; every name in the results is one token."""
    with ScriptedEngine(tokenizer, Turns(SAID[0], SAID[2])) as engine:
        async with stage_for(tokenizer, engine, search_url, max_turns=2) as stage:
            prompt = stage.boundary.prompt_ids(stage.protocol.messages(QUESTION))
            episode = await stage.run(prompt_ids=prompt)
    text = stage.boundary.decode(episode.prompt_ids + episode.response_ids)
    told = WHOLE.replace("near Sikasso.<|im_end|>", "near Sikasso.\nAnswer now.<|im_end|>", 1)
    assert text == told.partition(SAID[1])[0] + f"{SAID[2]}<|im_end|>"
    for note in (stage.protocol.answer_now, stage.protocol.cut_note):
        assert len(stage.boundary.encode(f"\n{note}")) == 2
    assert stage.boundary.encode(text) == episode.prompt_ids + episode.response_ids
