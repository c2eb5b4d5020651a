"""One small rollout that both hosts play: scripted engine and search service, three prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.engine import ScriptedEngine
from support.search import ScriptedSearch
from support.tokenizers import byte_tokenizer

PEERS = 4
PROMPTS = 3
GOLD = [["Oslo"], ["Bergen", "Bjørgvin"], ["Tromsø"]]
SPADER = {"agent": {"max_turns": 4, "answer_reserve": 64, "max_observation_tokens": 400}}
_RECORDED = {
    "rollout_function_path": "generate_rollout",
    "custom_generate_function_path": "generate",
    "custom_rm_path": "reward",
    "custom_reward_post_process_path": "post_process_rewards",
    "custom_advantage_function_path": "compute_advantages",
    "dynamic_sampling_filter_path": "keep_informative_group",
}
HOOKS = {argument: f"contracts.recording.{name}" for argument, name in _RECORDED.items()}


def find(query: str) -> list[tuple[str, str]]:
    """Documents on Norwegian towns, by substring."""
    towns = {"south": ("Oslo", "Oslo lies in the south."), "west": ("Bergen", "Rain in Bergen.")}
    return [document for word, document in towns.items() if word in query]


class Script:
    """Searches south, then west or not, then answers: peers differ, so advantages do."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, text: str) -> str:
        self.calls += 1
        turns = text.count("<|im_start|>assistant")
        if turns == 1:
            return '<think>look</think><tool_call>["towns in the south"]</tool_call>'
        if turns == 2 and self.calls % 2:
            return '<tool_call>["towns in the west"]</tool_call>'
        return '<answer>["Oslo", "Bergen"]</answer>' if turns == 3 else '<answer>["Oslo"]</answer>'


class Stage:
    """The servers, the tokenizer and the prompt file of the scenario, under `folder`."""

    def __init__(self, folder: Path) -> None:
        self.model = folder / "model"
        self.tokenizer = byte_tokenizer(self.model)
        self.engine = ScriptedEngine(self.tokenizer, Script())
        self.search = ScriptedSearch(find)
        self.prompts = folder / "prompts.jsonl"
        rows = [{"prompt": f"Which towns? {i}", "label": GOLD} for i in range(PROMPTS)]
        self.prompts.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    def common(self) -> dict[str, Any]:
        """Arguments that both hosts take, under slime's names."""
        search = {"urls": [self.search.endpoint], "timeout_s": 5, "retries": 0}
        return HOOKS | {
            "prompt_data": str(self.prompts),
            "rollout_seed": 1,
            "rollout_shuffle": True,
            "sglang_router_ip": "127.0.0.1",
            "sglang_router_port": self.engine.port,
            "sglang_server_concurrency": 64,
            "rollout_batch_size": 2,
            "over_sampling_batch_size": 2,
            "n_samples_per_prompt": PEERS,
            "rollout_max_response_len": 2000,
            "spader": SPADER | {"search": search},
        }

    def close(self) -> None:
        self.engine.close()
        self.search.close()
