"""Rollout dumps: written by either host in training, loaded by slime, trained to the same."""

from __future__ import annotations

import copy
import tempfile
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from contracts.on_stage import GROUPS, PEERS, eval_datasets, playing
from contracts.real_slime import Manager, fetch, join_alone
from support.drill import Faults
from support.hosts import make_host
from support.teacher import ScriptedTeacher
from support.tokenizers import byte_tokenizer

from spader_slime import adapter, hooks
from spader_slime.local.arguments import trainer_args
from spader_slime.local.dumps import read_dump
from spader_slime.megatron.decision_steps import NAME, steps_of
from spader_slime.megatron.distill import scores_of
from spader_slime.megatron.side_channel import PREFIX

PARTIAL = {"partial_rollout": True, "rollout_batch_size": GROUPS}
STEPS = {"ratio": "step", "aggregate": "step"}
Trained = dict[int, tuple[torch.Tensor, ...]]


def dump() -> None:
    """slime's rollouts and the embedded host's, some episodes lost, with and without steps."""
    with tempfile.TemporaryDirectory() as folder:
        join_alone(folder)
        for name, options in {"token": {}, "step": {"loss": STEPS}}.items():
            both_ways(folder, name, options)
        with ScriptedTeacher(byte_tokenizer(), _teacher_faults()) as teacher:
            teacher.entropy = True
            distillation = {"urls": [teacher.url], "top_k": 4, "retries": 0, "max_lost_share": 1}
            both_ways(folder, "taught", {"distillation": distillation, "loss": STEPS})
            assert teacher.asked
        import_module("megatron.core").mpu.destroy_model_parallel()
        torch.distributed.destroy_process_group()


def both_ways(folder: str, name: str, options: dict[str, Any]) -> None:
    by_slime(f"{folder}/slime, {name} {{rollout_id}}.pt", options)
    by_embedded_host(f"{folder}/embedded, {name} {{rollout_id}}.pt", options)


def _teacher_faults() -> Callable[[list[int]], str]:
    """Every third answer is lost, another way each time."""
    names = cycle(("", "", "null", "", "", "short", "", "", "status"))
    return lambda ids: next(names)


def by_slime(template: str, options: dict[str, Any]) -> None:
    """slime's manager: rollout, dump, logs, train data; and again from the dump."""
    faults, saving = Faults(), {"save_debug_rollout_data": template}
    with playing(faults, **PARTIAL, **saving) as (stage, args, source):
        args.spader |= options
        faults.attach(stage.engine)
        manager = Manager(args, hooks.post_process_rewards, source)
        for number in range(3):
            shards = manager.generate(number)
            check(train(args, fetch(args, shards)), args, template, number)
        args.eval_datasets = eval_datasets(stage, "dev", "test")
        manager.evaluate(0)
        assert len(read_dump(Path(template.format(rollout_id="eval_0")))) == 5  # prompts


def by_embedded_host(template: str, options: dict[str, Any]) -> None:
    """The embedded host's rollout and advantages; and slime's from its dump."""
    faults, counts = Faults(), {"n_samples_per_prompt": PEERS, "save_debug_rollout_data": template}
    with playing(faults) as (stage, args, _):
        args.spader |= options
        faults.attach(stage.engine)
        host = make_host(
            stage.engine, stage.search.endpoint, stage.prompts, max_share=1.0, **PARTIAL, **counts
        )
        with host:
            host.args.spader |= options
            for number in range(3):
                (data,) = host.rollout(number).train_data
                hooks.compute_advantages(trainer_args(host.args), data)
                check(found(data), args, template, number)


def check(trained: Trained, args: Namespace, template: str, number: int) -> None:
    """slime loads the dump, in a process that knows nothing of the rollout."""
    loading = Namespace(**vars(args))
    loading.spader = copy.deepcopy(args.spader)
    loading.load_debug_rollout_data, loading.save_debug_rollout_data = template, None
    loading.debug_train_only = True
    with mock.patch.dict(adapter._current_rollout, clear=True):
        shards = Manager(loading, hooks.post_process_rewards).generate(number)
        again = train(loading, fetch(loading, shards))
    assert trained.keys() == again.keys() and len(again) == GROUPS * PEERS
    for index, tensors in trained.items():
        columns = 4 + 2 * ("loss" in args.spader) + 2 * ("distillation" in args.spader)
        assert len(tensors) == len(again[index]) == columns
        assert all(map(torch.equal, tensors, again[index])), (template, number, index)
    assert any(tensors[0].any() for tensors in trained.values())
    assert not all(tensors[1].any() for tensors in trained.values())  # some were lost
    assert len(read_dump(Path(template.format(rollout_id=number)))) == GROUPS


def train(args: Namespace, data: dict[str, Any]) -> Trained:
    """slime's advantages."""
    loss: Any = import_module("slime.backends.megatron_utils.loss")
    data["log_probs"] = [values.clone() for values in data["rollout_log_probs"]]
    loss.compute_advantages_and_returns(args, data)
    return found(data)


def found(data: dict[str, Any]) -> Trained:
    """By sample: advantages, mask, old log-probs, reward; decision steps, scores of a teacher."""
    columns = [data["advantages"], data["loss_masks"], data["rollout_log_probs"]]
    columns.append([torch.tensor(reward) for reward in data["rewards"]])
    if hasattr(data["returns"][0], PREFIX + NAME):
        steps = steps_of(data["returns"])
        columns += [[own.step_T for own in steps], [own.counts_S for own in steps]]
    if "teacher_log_probs" in data:
        scores = [said.pack() for said in scores_of(data)]
        assert any(packed[:, 3].any() for packed in scores)  # gates
        columns += [data["teacher_log_probs"], scores]
    return dict(zip(data["sample_indices"], zip(*columns, strict=True), strict=True))
