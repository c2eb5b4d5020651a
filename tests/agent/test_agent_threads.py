"""Long work with an observation's text is done beside the event loop, and done alike."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support.loops import Turns, without_times
from support.search import ScriptedSearch
from support.trajectories import run

from spader_slime.agent import event_loops
from spader_slime.agent.observe import Observation, Observer

SEARCH = '<tool_call>["Oslo", "Bergen"]</tool_call>'
ANSWER = '<answer>["Oslo"]</answer>'
TEXT = "A city in Norway. " * 40  # more than an observation may hold: it is cut, too


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Threads in which observations are written and tokenized."""
    found: list[int] = []
    results = Observer.results

    def watched(self: Observer, *inputs: Any) -> Observation | None:
        found.append(threading.get_ident())
        return results(self, *inputs)

    monkeypatch.setattr(Observer, "results", watched)
    return found


async def test_long_results_are_tokenized_in_a_thread(
    threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, runs = threading.get_ident(), []
    with ScriptedSearch(lambda query: [(query, TEXT)]) as search:
        for large in (event_loops.LARGE, 2 * len(TEXT)):
            monkeypatch.setattr(event_loops, "LARGE", large)
            runs.append(await run(search, Turns(SEARCH, ANSWER)))
    (short, *_), (long, *_) = runs
    assert threads[0] == here and threads[1] != here and len(threads) == 2
    assert without_times(short) == without_times(long)
    assert short.turns[0].cut and short.answer == ["Oslo"]
