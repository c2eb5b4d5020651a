"""Checks that run inside real slime.

    python tests/contracts/on_slime.py SLIME_CHECKOUT OUT.json

Writes `{check: "" or what went wrong}`. Needs what `record_seams.py` needs.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import traceback
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

import torch  # noqa: E402
from contracts import scenario  # noqa: E402
from contracts.real_slime import slime_args, use_slime  # noqa: E402
from support.drill import Continuing, Faults, check_rollouts  # noqa: E402
from support.hosts import REPLIES, TownScript  # noqa: E402

from spader_slime import hooks, record  # noqa: E402
from spader_slime.algorithms.zigzag import slice_response  # noqa: E402
from spader_slime.errors import TooManyFailuresError  # noqa: E402
from spader_slime.local.sample import Sample  # noqa: E402

ROLLOUTS, GROUPS, PEERS = 25, 8, 3  # 200 groups


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


def drill(mode: str, mask: bool) -> None:
    """Aborts at random moments and broken searches over 200 groups of slime's own loop."""
    faults = Faults()
    many = {"rollout_batch_size": GROUPS, "over_sampling_batch_size": 2 * GROUPS}
    partial = {"partial_rollout": True, "mask_offpolicy_in_partial_rollout": mask}
    routed = {"router_policy": "consistent_hashing", "sglang_server_concurrency": 16}
    with playing(faults, mode=mode, **many, **partial, **routed) as (stage, args, source):
        faults.attach(stage.engine)
        samples, metrics = [], []
        for number in range(ROLLOUTS):
            stage.engine.weight_version = str(number)
            output = hooks.generate_rollout(args, number, source, evaluation=False)
            samples.append([sample for group in output.samples for sample in group])
            metrics.append(output.metrics)
        assert sum(map(len, samples)) == ROLLOUTS * GROUPS * PEERS
        resumed = check_rollouts(samples, metrics, stage.engine, mask)
        assert resumed > 0


def limit(mode: str) -> None:
    """Too many lost episodes end the run with one line, whichever loop runs."""

    class Broken(Faults):
        def search(self, number: int) -> str:
            return "status"

    with playing(Broken(), share=0.5, mode=mode) as (_, args, source):
        line = stopped_by(lambda: hooks.generate_rollout(args, 0, source, evaluation=False))
        assert line.startswith("6 of 6 episodes failed (100%") and "\n" not in line, line


def stopped_by(run: Callable[[], Any]) -> str:
    try:
        run()
    except TooManyFailuresError as error:
        return str(error)
    return "nothing stopped it"


def evaluation(mode: str) -> None:
    """Several data sets at once, with group rewards off, beside either loop."""
    config: Any = import_module("slime.utils.eval_config").EvalDatasetConfig
    keys = {"input_key": "prompt", "label_key": "label", "metadata_key": "metadata"}
    sampling = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "max_response_len": 2000}
    with playing(mode=mode, sglang_server_concurrency=2) as (stage, args, source):
        args.eval_datasets = [
            config(name, stage.prompts, n_samples_per_eval_prompt=4, **sampling, **keys)
            for name in ("dev", "test")
        ]
        for number in range(3):
            hooks.generate_rollout(args, number, source, evaluation=False)
            output = hooks.generate_rollout(args, number, source, evaluation=True)
            assert [len(result["samples"]) for result in output.data.values()] == [20, 20]
            assert output.metrics["eval/dev/spader/group_size"] == 4
            assert output.metrics["eval/test/spader/valid"] == 1.0
            assert output.metrics["eval/test/spader/failed/share"] == 0.0
        assert args.group_rm


def slices() -> None:
    """Context-parallel slices are slime's, for every rank and many lengths."""
    mpu: Any = import_module("megatron.core").mpu
    theirs = import_module("slime.backends.megatron_utils.cp_utils").slice_log_prob_with_cp
    for size in (1, 2, 3, 4):
        mpu.get_context_parallel_world_size = lambda size=size: size
        for rank in range(size):
            mpu.get_context_parallel_rank = lambda rank=rank: rank
            for total in range(2, 40):
                for response in range(1, total):
                    values = torch.arange(response)
                    ours = slice_response(values, total, response, rank, size)
                    assert torch.equal(ours, theirs(values, total, response))


def sample_stand_in() -> None:
    """The embedded host's Sample goes through the same turns and dumps as slime's."""
    slime_sample: Any = import_module("slime.utils.types").Sample
    made = []
    for kind in (Sample, slime_sample):
        sample = kind(index=3, prompt="q", label=[["a"]], tokens=[1, 2])
        meta = {"finish_reason": {"type": "stop"}, "prompt_tokens": 2, "weight_version": "1"}
        sample.append_response_tokens(
            None, tokens=[5, 6], log_probs=[-1.0, -2.0], meta_info=meta, text="ab"
        )
        sample.append_response_tokens(None, tokens=[7], trainable=False, text="c")
        sample.append_response_tokens(None, tokens=[8], log_probs=[-0.5], meta_info=meta)
        made.append(sample.to_dict())
    assert made[0] == made[1], made
    assert Sample.from_dict(made[1]).to_dict() == slime_sample.from_dict(made[0]).to_dict()


def dump() -> None:
    """A dump made in training loads with slime's own code and trains to the same advantages."""
    with playing(rollout_batch_size=2) as (_, args, source):
        output = hooks.generate_rollout(args, 0, source, evaluation=False)
        samples = [sample for group in output.samples for sample in group]
        _, rewards = hooks.post_process_rewards(args, samples)
        with tempfile.NamedTemporaryFile(suffix=".pt") as file:
            torch.save({"samples": [sample.to_dict() for sample in samples]}, file.name)
            stored = torch.load(file.name, weights_only=False)["samples"]
        again = [type(samples[0]).from_dict(sample) for sample in stored]
        _, loaded = hooks.post_process_rewards(args, again)
        assert all(map(torch.equal, rewards, loaded))
        assert any(values.any() for values in rewards)
        assert [record.episode_of(s) for s in again] == [record.episode_of(s) for s in samples]


CHECKS: dict[str, Callable[[], None]] = {
    "slices": slices,
    "sample": sample_stand_in,
    "dump": dump,
    "drill, sync": lambda: drill("sync", mask=False),
    "drill, sync, off-policy masked": lambda: drill("sync", mask=True),
    "limit, sync": lambda: limit("sync"),
    "evaluation, sync": lambda: evaluation("sync"),
    "drill, fully async": lambda: drill("fully_async", mask=False),
    "limit, fully async": lambda: limit("fully_async"),
    "evaluation, fully async": lambda: evaluation("fully_async"),
}


def main(checkout: str, out: Path) -> None:
    use_slime(checkout)
    results = {}
    for name, check in CHECKS.items():
        try:
            check()
            results[name] = ""
        except Exception:
            results[name] = traceback.format_exc()
        stop_worker()
        print(name, "failed" if results[name] else "passed", flush=True)
    out.write_text(json.dumps(results), "utf-8")


def stop_worker() -> None:
    """slime's fully-async worker outlives a rollout; the next check wants its own."""
    import_module("slime.rollout.fully_async_rollout")._stop_global_worker()


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    main(sys.argv[1], Path(sys.argv[2]))
    os._exit(0)  # slime keeps threads alive
