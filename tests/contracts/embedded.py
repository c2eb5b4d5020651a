"""The embedded host plays the scenario that real slime played for the fixture."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from contracts import recording, scenario

from spader_slime.local import worker
from spader_slime.local.arguments import host_args, trainer_args
from spader_slime.local.host import RolloutHost
from spader_slime.local.seam import EvalDataset
from spader_slime.local.train_data import convert_samples_to_train_data


def record(folder: Path) -> dict[str, Any]:
    """Everything that crosses a seam on the way from prompts to the trainer's loss."""
    recording.SEAMS.clear()
    stage = scenario.Stage(folder)
    args = host_args(**stage.common("contracts.recording"))
    args.eval_datasets = [EvalDataset(name, stage.prompts) for name in ("dev", "test")]
    with RolloutHost(args, stage.tokenizer) as host:
        rollout = host.rollout(0)
        host.evaluate(0)
    stage.close()
    data = convert_samples_to_train_data(args, rollout.samples)
    recording.note("train data", recording.keys(data))
    recording.note("train data of a rank", recording.keys(rollout.train_data[0]))
    learner: Any = SimpleNamespace(train=lambda data: {})
    worker.train(learner, rollout.train_data[0], trainer_args(args))
    return dict(recording.SEAMS)
