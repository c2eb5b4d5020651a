"""An embedded host around a scripted engine and any search service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spader_slime.local.arguments import host_args
from spader_slime.local.host import RolloutHost
from support.engine import ScriptedEngine

GOLD = [["Oslo"], ["Bergen", "Bjørgvin"], ["Trondheim"]]
AGENT = {"max_turns": 4, "answer_reserve": 64, "max_observation_tokens": 600}


TOWNS = {"capital Norway": [("Oslo", "Capital.")], "Vestland": [("Bergen", "A city.")]}
CAPITAL = '<think>capital</think><tool_call>["capital Norway"]</tool_call>'
VESTLAND = '<tool_call>["Vestland"]</tool_call>'
ANSWERS = ('<answer>["Oslo"]</answer>', '<answer>["Oslo", "Bergen"]</answer>')
REPLIES = (CAPITAL, VESTLAND, *ANSWERS)


class TownScript:
    """Searches for the capital, every other time for Vestland too, then answers what it knows."""

    def __init__(self) -> None:
        self.second = 0

    def __call__(self, text: str) -> str:
        turns = text.count("<|im_start|>assistant")
        if turns == 1:
            return CAPITAL
        if turns > 2:
            return ANSWERS[1]
        self.second += 1
        return VESTLAND if self.second % 2 else ANSWERS[0]


def write_prompts(path: Path, count: int = 3, **fields: Any) -> str:
    """A prompt file with `count` questions in slime's row format."""
    rows = [{"prompt": f"Which towns? {i}", "label": GOLD, **fields} for i in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


def make_host(
    engine: ScriptedEngine,
    search_url: str,
    prompts: str,
    search: dict[str, Any] | None = None,
    max_share: float = 0.2,
    **arguments: Any,
) -> RolloutHost:
    """A host whose two prompts times four peers are played by `engine`."""
    method = {
        "agent": AGENT,
        "search": {"urls": [search_url], "retries": 0, "top_k": 2, **(search or {})},
        "failures": {"max_share": max_share},
    }
    fixed: dict[str, Any] = {
        "prompt_data": prompts,
        "sglang_router_port": engine.port,
        "rollout_batch_size": 2,
        "n_samples_per_prompt": 4,
        "rollout_max_response_len": 2000,
        "spader": method,
    }
    return RolloutHost(host_args(**(fixed | arguments)), engine.tokenizer)
