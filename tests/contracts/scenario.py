"""A stage that both hosts play on: scripted engine and search service, a few prompts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.engine import Script, ScriptedEngine
from support.hosts import AGENT, TOWNS, TownScript, write_prompts
from support.search import ScriptedSearch
from support.tokenizers import byte_tokenizer

PEERS = 4
_HOOKS = {
    "rollout_function_path": "generate_rollout",
    "custom_generate_function_path": "generate",
    "custom_rm_path": "reward",
    "custom_reward_post_process_path": "post_process_rewards",
    "custom_advantage_function_path": "compute_advantages",
    "dynamic_sampling_filter_path": "keep_informative_group",
}


def hook_paths(module: str) -> dict[str, str]:
    """slime's arguments that name the hooks of `module`."""
    return {argument: f"{module}.{name}" for argument, name in _HOOKS.items()}


class Stage:
    """The servers, the tokenizer and the prompt file, under `folder`."""

    def __init__(
        self,
        folder: Path,
        script: Script | None = None,
        fault: Callable[[int], str] = lambda number: "",
        prompts: int = 3,
    ) -> None:
        self.model = folder / "model"
        self.tokenizer = byte_tokenizer(self.model)
        self.engine = ScriptedEngine(self.tokenizer, script or TownScript())
        self.search = ScriptedSearch(TOWNS.__getitem__, fault)
        self.prompts = write_prompts(folder / "prompts.jsonl", prompts)

    def common(self, hooks: str, **changes: Any) -> dict[str, Any]:
        """Arguments that both hosts take, under slime's names."""
        search = {"urls": [self.search.endpoint], "timeout_s": 30, "retries": 0}
        values = {
            "prompt_data": self.prompts,
            "rollout_seed": 1,
            "rollout_shuffle": True,
            "sglang_router_ip": "127.0.0.1",
            "sglang_router_port": self.engine.port,
            "sglang_server_concurrency": 64,
            "rollout_batch_size": 2,
            "over_sampling_batch_size": 2,
            "n_samples_per_prompt": PEERS,
            "rollout_max_response_len": 2000,
            "spader": {"agent": AGENT, "search": search},
        }
        return hook_paths(hooks) | values | changes

    def close(self) -> None:
        self.engine.close()
        self.search.close()
