"""Real slime in this process: where it lies, on a CPU machine, and the arguments it reads."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from contracts import scenario, standins


def checkout() -> str | None:
    """Where slime lies: `SLIME_SRC`, or the folder of the installed package."""
    if os.environ.get("SLIME_SRC"):
        return os.environ["SLIME_SRC"]
    found = find_spec("slime")
    return str(Path(found.submodule_search_locations[0]).parent) if found else None  # type: ignore[index]


def use_slime(checkout: str) -> None:
    """Make the slime in `checkout` importable, on a machine without GPU and sglang."""
    sys.path.insert(0, checkout)
    standins.install()
    on_cpu()


def on_cpu() -> None:
    """Answer "cpu" where slime asks for an accelerator, and leave tensors where they are."""
    torch.cuda.current_device = lambda: "cpu"  # type: ignore[assignment, return-value]
    torch.Tensor.cuda = lambda self, *where, **how: self  # type: ignore[method-assign]
    try:
        accelerator: Any = import_module("slime.utils.accelerator")
    except ImportError:
        return  # v0.3.1 asks torch.cuda
    accelerator.current_device = lambda: "cpu"
    accelerator.device = lambda *index: torch.device("cpu")


def version() -> str:
    """The supported versions by what tells them apart; both call themselves 0.3.1."""
    return "main" if find_spec("slime.observability") else "v0.3.1"


def slime_args(stage: scenario.Stage, hooks: str, **changes: Any) -> Namespace:
    """The arguments that the driven parts of slime read."""
    values: dict[str, Any] = {
        # data
        "hf_checkpoint": str(stage.model), "rollout_global_dataset": True, "dump_details": None,
        "rollout_max_prompt_len": None, "input_key": "prompt", "multimodal_keys": None,
        "label_key": "label", "metadata_key": "metadata", "tool_key": None,
        "apply_chat_template": False, "apply_chat_template_kwargs": None,
        "buffer_filter_path": None,
        # engine
        "rollout_num_engines": 1, "sglang_dp_size": 1, "use_distributed_post": False,
        "router_policy": None, "use_rollout_routing_replay": False, "rollout_temperature": 1.0,
        "rollout_top_p": 1.0, "rollout_top_k": -1, "rollout_stop": None,
        "rollout_stop_token_ids": None, "rollout_skip_special_tokens": False,
        "rollout_max_context_len": None, "eval_max_context_len": None, "eval_max_prompt_len": None,
        # rollout
        "partial_rollout": False, "mask_offpolicy_in_partial_rollout": False,
        "rollout_sample_filter_path": None, "rollout_all_samples_process_path": None,
        "ci_test": False, "group_rm": True, "rollout_sample_hook_path": None, "reward_key": None,
        "eval_reward_key": None, "rm_type": None,
        # dumps and logs
        "save_debug_rollout_data": None, "load_debug_rollout_data": None,
        "load_debug_rollout_data_subsample": None, "debug_rollout_only": False,
        "debug_train_only": False, "custom_rollout_log_function_path": None,
        "custom_eval_rollout_log_function_path": None, "log_reward_category": None,
        "rollout_num_gpus": 1, "log_passrate": True, "n_samples_per_eval_prompt": 1,
        "wandb_always_use_train_step": False, "use_wandb": False, "use_tensorboard": False,
        # trainer
        "advantage_estimator": "grpo", "rewards_normalization": True, "global_batch_size": 8,
        "use_dynamic_batch_size": True, "max_tokens_per_gpu": 4096, "balance_by_flops": False,
        "balance_data": False, "rollout_data_transport": "object-store", "kl_coef": 0,
        "use_rollout_logprobs": False, "use_opd": False, "normalize_advantages": False,
        "loss_type": "custom_loss", "custom_loss_function_path": "contracts.recording.policy_loss",
        "custom_megatron_before_train_step_hook_path": None, "save_debug_train_data": None,
        "data_pad_size_multiplier": 1, "allgather_cp": False, "enable_mtp_training": False,
        "seq_length": 0, "micro_batch_size": 1, "decoder_seq_length": None,
        "calculate_per_token_loss": False, "recompute_loss_function": False,
    }  # fmt: skip
    return Namespace(**(values | stage.common(hooks) | changes))


class Manager:
    """slime's RolloutManager without Ray and engines: from prompts, or a dump, to train data.

    Args:
        post_process: what --custom-reward-post-process-path names.
        source: slime's data source; None: nothing is generated.
    """

    def __init__(
        self,
        args: Namespace,
        post_process: Callable[..., Any],
        source: Any = None,
        dp: int = 1,
        cp: int = 1,
    ) -> None:
        module: Any = import_module("slime.ray.rollout")
        module.ray = SimpleNamespace(put=lambda value, **kwargs: value)
        kind = module.RolloutManager.__ray_metadata__.modified_class
        load = import_module("slime.utils.misc").load_function
        self._real: Any = object.__new__(kind)  # as its constructor would leave it
        parallel = {"dp_size": dp, "cp_size": cp, "vpp_size": 1}
        self._real.__dict__ |= {
            "args": args,
            "data_source": source,
            "generate_rollout": load(args.rollout_function_path) if source else None,
            "eval_generate_rollout": load(args.rollout_function_path) if source else None,
            "custom_reward_post_process_func": post_process,
            "custom_convert_samples_to_train_data_func": None,
            "train_parallel_config": parallel | {"microbatch_group_size_per_vp_stage": 1},
            "_health_monitors": [],
        }

    def generate(self, rollout_id: int) -> list[Any]:
        """One rollout: generated or loaded, dumped, logged, converted and split."""
        shards: list[Any] = self._real.generate(rollout_id)
        return shards

    def evaluate(self, rollout_id: int) -> None:
        """One evaluation: generated, dumped, logged."""
        self._real.eval(rollout_id)

    def convert(self, samples: list[Any]) -> dict[str, Any]:
        """slime's train data."""
        data: dict[str, Any] = self._real._convert_samples_to_train_data(samples)
        return data

    def split(self, data: dict[str, Any]) -> list[Any]:
        """One box per data-parallel rank."""
        shards: list[Any] = self._real._split_train_data_by_dp(data)
        return shards


def fetch(args: Namespace, shards: list[Any]) -> dict[str, Any]:
    """What slime's train actor makes of the box of its data-parallel rank."""
    actor: Any = import_module("slime.backends.megatron_utils.actor")
    import_module("slime.utils.data").ray = SimpleNamespace(get=lambda value: value)  # type: ignore[attr-defined]
    get = actor.MegatronTrainRayActor._get_rollout_data
    found: dict[str, Any] = get(SimpleNamespace(args=args), shards)
    return found


def join_alone(folder: str) -> None:
    """A process grid of this process alone."""
    store = torch.distributed.FileStore(f"{folder}/store", 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    import_module("megatron.core").mpu.initialize_model_parallel()
