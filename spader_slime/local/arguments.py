"""slime's argument names with defaults that suit one machine."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from spader_slime.errors import ConfigError

_DEFAULTS: dict[str, Any] = {
    # data
    "prompt_data": None,
    "rollout_seed": 42,
    "rollout_shuffle": True,
    "apply_chat_template": False,
    "apply_chat_template_kwargs": None,
    # engine
    "sglang_router_ip": "127.0.0.1",
    "sglang_router_port": None,
    "sglang_server_concurrency": 256,
    "router_policy": None,
    "use_rollout_routing_replay": False,
    "rollout_temperature": 1.0,
    "rollout_top_p": 1.0,
    "rollout_top_k": -1,
    "rollout_max_response_len": 8192,
    "rollout_max_context_len": None,
    "eval_max_context_len": None,
    "rollout_stop": None,
    "rollout_stop_token_ids": None,
    "rollout_skip_special_tokens": False,
    # loop
    "rollout_batch_size": 8,
    "over_sampling_batch_size": None,
    "n_samples_per_prompt": 8,
    "partial_rollout": False,
    "mask_offpolicy_in_partial_rollout": False,
    "dynamic_sampling_filter_path": None,
    "eval_datasets": [],
    "save_debug_rollout_data": None,
    # hooks
    "group_rm": True,
    "reward_key": None,
    "rollout_function_path": "spader_slime.hooks.generate_rollout",
    "custom_generate_function_path": "spader_slime.hooks.generate",
    "custom_rm_path": "spader_slime.hooks.reward",
    "custom_reward_post_process_path": "spader_slime.hooks.post_process_rewards",
    "custom_advantage_function_path": "spader_slime.hooks.compute_advantages",
    # method
    "spader": None,
}


def host_args(**values: Any) -> Namespace:
    """Arguments of the embedded host: the defaults above, replaced by `values`.

    Raises:
        ConfigError: a name that the host does not know, or a missing or impossible value.
    """
    for name in values.keys() - _DEFAULTS.keys():
        raise ConfigError(name, values[name], "one of " + ", ".join(_DEFAULTS))
    args = Namespace(**{**_DEFAULTS, "eval_datasets": [], **values})
    if args.over_sampling_batch_size is None:
        args.over_sampling_batch_size = args.rollout_batch_size
    if not args.sglang_router_port:
        raise ConfigError("sglang_router_port", args.sglang_router_port, "the engine's port")
    for name in ("rollout_batch_size", "over_sampling_batch_size", "n_samples_per_prompt"):
        if getattr(args, name) < 1:
            raise ConfigError(name, getattr(args, name), "a number of at least 1")
    return args


def trainer_args(args: Namespace) -> Namespace:
    """A copy that can travel to trainer processes: without the state of the running host."""
    return Namespace(**{k: v for k, v in vars(args).items() if k != "spader_state"})
