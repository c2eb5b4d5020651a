"""Our hooks in slime's own loops: faults, limits, evaluation."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from contracts.on_stage import GROUPS, PEERS, playing
from support.drill import Faults, check_rollouts

from spader_slime import hooks
from spader_slime.errors import TooManyFailuresError

ROLLOUTS = 25  # 200 groups


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
