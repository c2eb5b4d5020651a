"""A scripted stage with real slime on it."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from contracts import scenario
from contracts.real_slime import slime_args
from support.drill import Continuing, Faults
from support.hosts import REPLIES, TownScript

GROUPS, PEERS = 8, 3  # of a rollout in the drills


@contextmanager
def playing(
    faults: Faults | None = None, share: float = 1.0, mode: str = "sync", **changes: Any
) -> Iterator[tuple[scenario.Stage, Namespace, Any]]:
    """A stage, slime's arguments for it, and slime's data source."""
    misc: Any = import_module("slime.utils.misc")
    misc.SingletonMeta._instances.clear()  # GenerateState keeps the arguments of its first use
    fault = faults.search if faults else lambda number: ""
    script = Continuing(TownScript(), REPLIES)
    with tempfile.TemporaryDirectory() as folder:
        stage = scenario.Stage(Path(folder), script, fault, prompts=5)
        args = slime_args(stage, "spader_slime.hooks", n_samples_per_prompt=PEERS, **changes)
        args.spader |= {"failures": {"max_share": share}, "rollout": mode}
        import_module("slime.utils.http_utils").init_http_client(args)
        source = import_module("slime.rollout.data_source").RolloutDataSourceWithBuffer(args)
        yield stage, args, source
        stage.close()


def eval_datasets(stage: scenario.Stage, *names: str, peers: int = 1) -> list[Any]:
    """slime's description of evaluation data: the prompts of the stage, once under each name."""
    config: Any = import_module("slime.utils.eval_config").EvalDatasetConfig
    keys = {"input_key": "prompt", "label_key": "label", "metadata_key": "metadata"}
    sampling = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "max_response_len": 2000}
    return [
        config(name, stage.prompts, n_samples_per_eval_prompt=peers, **sampling, **keys)
        for name in names
    ]
