"""slime's `tests/plugin_contracts`, its own test functions, with the paths of our hooks.

Their inputs suit slime's reference implementations: arguments of None, samples that nobody
generated. Each check replaces the input by one as slime's loop makes it, and nothing else; what is
asserted is slime's. `docs/slime-compatibility.md` lists what can't be met this way, and why.
"""

from __future__ import annotations

import asyncio
import copy
import os
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

from contracts.on_stage import eval_datasets, playing

from spader_slime import hooks

HOOKS = "spader_slime.hooks"
PEERS = 2  # as many as the contracts expect


def contract(name: str) -> Any:
    """The module `plugin_contracts.test_plugin_<name>_contracts`; it stubs only what is absent."""
    for package in ("ray", "transformers", "sglang_router"):
        import_module(package)
    return import_module(f"plugin_contracts.test_plugin_{name}_contracts")


def path(key: str, hook: str) -> Any:
    """The contracts' way to name an implementation."""
    return mock.patch.dict(os.environ, {f"SLIME_CONTRACT_{key}": f"{HOOKS}.{hook}"})


@contextmanager
def real_calls(module: Any) -> Iterator[None]:
    """The contract calls rollout functions with slime's arguments and data source."""
    call = module.call_rollout_fn
    with playing() as (stage, args, source):
        args.n_samples_per_prompt = PEERS
        args.eval_datasets = eval_datasets(stage, "dev")

        def called(function: Any, _: None, rollout_id: int, __: Any, evaluation: bool) -> Any:
            return call(function, args, rollout_id, source, evaluation=evaluation)

        with mock.patch.object(module, "call_rollout_fn", called):
            yield


@contextmanager
def real_samples(module: Any) -> Iterator[tuple[Namespace, Any]]:
    """`make_sample` hands out samples of a rollout of ours, `make_args` slime's arguments."""
    with playing() as (_, args, source):
        args.n_samples_per_prompt = PEERS
        group = hooks.generate_rollout(args, 0, source, evaluation=False).samples[0]

        def made(**changes: Any) -> Namespace:
            return Namespace(**(vars(args) | changes))

        with (
            mock.patch.object(
                module, "make_sample", lambda index, *more, **m: group[index % PEERS]
            ),
            mock.patch.object(module, "make_args", made, create=True),
        ):
            yield args, group


def rollout_function() -> None:
    module = contract("rollout")
    with path("ROLLOUT_FUNCTION_PATH", "generate_rollout"), real_calls(module):
        module.test_rollout_function_path_contract_supports_user_override()


def evaluation_function() -> None:
    module = contract("path_loading")
    with real_calls(module):
        module.check_eval_function_path(f"{HOOKS}.generate_rollout")


def generate_function() -> None:
    """The reward is slime's own: the contract is about generation, of one sample alone."""
    module = contract("generate")
    generate = module.generate_and_rm
    lone = {"group_rm": False, "custom_rm_path": None, "rm_type": "random"}
    with playing(**lone) as (_, args, _source):
        sampling = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "max_new_tokens": 2000}

        def generated(_: Any, sample: Any, sampling_params: Any, evaluation: bool) -> Any:
            return generate(args, sample, sampling | sampling_params, evaluation=evaluation)

        with (
            path("CUSTOM_GENERATE_FUNCTION_PATH", "generate"),
            mock.patch.object(module, "generate_and_rm", generated),
        ):
            module.test_custom_generate_function_path_supports_user_override(None)


def dynamic_sampling_filter() -> None:
    module = contract("path_loading")
    with real_samples(module):
        module.check_dynamic_filter_path(f"{HOOKS}.keep_informative_group")


def group_reward() -> None:
    module = contract("path_loading")
    with (
        path("CUSTOM_RM_PATH", "reward"),
        mock.patch.dict(os.environ, {"SLIME_CONTRACT_GROUP_RM": "1"}),
        real_samples(module),
    ):
        module.test_custom_rm_path_aligns_with_expected_format()


def single_reward() -> None:
    """Of an evaluated sample; the contract's name for the argument is left out (see docs)."""
    module = contract("path_loading")
    with real_samples(module) as (args, group):
        sample = copy.deepcopy(group[0])
        sample.metadata["spader"]["evaluation"] = True
        reward = asyncio.run(module.async_rm(args, sample))
        assert isinstance(reward, (int, float))


def reward_post_process() -> None:
    module = contract("runtime_hook")
    (case,) = [c for c in module.HOOK_CASES if c.name == "custom_reward_post_process"]
    with path(case.env_key, "post_process_rewards"), real_samples(module):
        module.test_runtime_hook_path_aligns_with_expected_format(case)


def call_sites() -> None:
    """Where slime's source calls the runtime hooks, ours among them."""
    module, here = contract("runtime_hook"), Path.cwd()
    os.chdir(Path(import_module("slime").__path__[0]).parent)
    try:
        for case in module.HOOK_CASES:
            module.test_runtime_hook_callsite_is_stable(case)
    finally:
        os.chdir(here)
