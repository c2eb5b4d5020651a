"""The embedded host plays the scenario that real slime played for the fixture."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any
from unittest import mock

from contracts import recording, scenario
from support.policies import write_policy

from spader_slime.local import worker
from spader_slime.local.arguments import host_args, trainer_args
from spader_slime.local.host import RolloutHost
from spader_slime.local.seam import EvalDataset
from spader_slime.local.train_data import convert_samples_to_train_data
from spader_slime.megatron import learner as learning
from spader_slime.megatron.settings import LearnerSettings


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
    train(folder, rollout.train_data[0], trainer_args(args))
    return dict(recording.SEAMS)


def train(folder: Path, data: dict[str, Any], args: Namespace) -> None:
    """The embedded trainer with a tiny model, stopped once the loss has its data."""

    def reached(settings: LearnerSettings, data: dict[str, Any], *sizes: float) -> Any:
        recording.note("loss batch", recording.keys(data))
        raise recording.LossReached

    learner = learning.Learner(LearnerSettings(), write_policy(folder / "policy", layers=1))
    try:
        with mock.patch.object(learning, "clipped_policy_gradient", reached):
            worker.train(learner, data, args)
    except recording.LossReached:
        return
    finally:
        learner.close()
    raise AssertionError("the loss was never reached")
