"""Run real slime with our hooks and write down what crosses each seam.

    python tests/contracts/record_seams.py SLIME_CHECKOUT [OUT.json]

Needs a checkout of THUDM/slime (v0.3.1 or main) and, from PyPI, ray, httpx, datasets, pylatexenc
and qwen_vl_utils. No GPU, no sglang, no Ray cluster. The seams of this version are put into
OUT.json beside those of others; by default that is the fixture that the tests replay.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import warnings
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

import torch  # noqa: E402
from contracts import recording, scenario  # noqa: E402
from contracts.on_stage import eval_datasets  # noqa: E402
from contracts.real_slime import (  # noqa: E402
    Manager,
    fetch,
    join_alone,
    slime_args,
    use_slime,
    version,
)

FIXTURE = TESTS / "fixtures" / "slime_seams.json"


def rollout_side(args: Namespace, stage: scenario.Stage) -> list[Any]:
    """slime's own rollout loop, evaluation and data source around our hooks."""
    from slime.rollout.data_source import RolloutDataSourceWithBuffer
    from slime.utils.http_utils import init_http_client
    from slime.utils.misc import load_function

    init_http_client(args)
    run = load_function(args.rollout_function_path)
    output = run(args, 0, RolloutDataSourceWithBuffer(args), evaluation=False)
    args.eval_datasets = eval_datasets(stage, "dev", "test")
    run(args, 0, None, evaluation=True)
    return [sample for group in output.samples for sample in group]


def manager_side(args: Namespace, samples: list[Any]) -> list[Any]:
    """slime's conversion to train data and its split by data-parallel rank."""
    manager = Manager(args, recording.post_process_rewards)
    data = manager.convert(samples)
    recording.note("train data", recording.keys(data))
    shards = manager.split(data)
    recording.note("train data of a rank", recording.keys(shards[0].inner))
    return shards


def trainer_side(args: Namespace, shards: list[Any], folder: str) -> None:
    """slime's train actor up to the loss: fetch, advantages, one training step."""
    join_alone(folder)
    loss: Any = import_module("slime.backends.megatron_utils.loss")
    data = fetch(args, shards)
    data["log_probs"] = [values.clone() for values in data["rollout_log_probs"]]
    loss.compute_advantages_and_returns(args, data)
    step(args, data)
    torch.distributed.destroy_process_group()


def step(args: Namespace, data: dict[str, Any]) -> None:
    """slime's train_one_step with a model of zeros, stopped once the loss has its batch."""
    model: Any = import_module("slime.backends.megatron_utils.model")
    batches: Any = import_module("slime.backends.megatron_utils.data")
    model.get_args = lambda: args

    def forward_backward(*, forward_step_func: Any, data_iterator: Any, **kwargs: Any) -> None:
        network = lambda input_ids, **kwargs: torch.zeros(*input_ids.shape, 8)  # noqa: E731
        logits, loss_function = forward_step_func(data_iterator, network)
        loss_function(logits)

    model.get_forward_backward_func = lambda: forward_backward
    iterator = batches.DataIterator(data, data["micro_batch_indices"])
    optimizer = SimpleNamespace(zero_grad=lambda: None)
    try:
        model.train_one_step(args, 0, 0, iterator, [], optimizer, None, 1, 8)
    except recording.LossReached:
        return
    raise AssertionError("the loss hook was never called")


def record(checkout: str) -> dict[str, Any]:
    """Everything that crosses a seam while slime plays the scenario, by version."""
    use_slime(checkout)
    with tempfile.TemporaryDirectory() as folder:
        stage = scenario.Stage(Path(folder))
        args = slime_args(stage, "contracts.recording")
        trainer_side(args, manager_side(args, rollout_side(args, stage)), folder)
        stage.close()
    return {version(): dict(sorted(recording.SEAMS.items()))}


def main(checkout: str, out: Path) -> None:
    """Add the seams of the slime in `checkout` to the file `out`."""
    known = json.loads(out.read_text("utf-8")) if out.exists() else {}
    found = record(checkout)
    out.write_text(json.dumps(known | found, indent=1, sort_keys=True) + "\n", "utf-8")
    for name, seams in found.items():
        print(f"slime {name}: {len(seams)} seams recorded")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else FIXTURE)
    sys.stdout.flush()
    os._exit(0)  # slime keeps threads alive
