"""A process that does nothing but train and save, to be killed."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

from spader_slime.errors import CheckpointError
from spader_slime.megatron.learner import Learner
from spader_slime.megatron.settings import LearnerSettings
from support.policies import make_rollout


def train_and_save(hf: Path, folder: Path, ready: Connection) -> None:
    """Go on from the newest checkpoint and save every step; say so after the first."""
    learner, step = Learner(LearnerSettings(), hf), 0
    try:
        restored = learner.load(folder)
        step = restored.state["step"]
        assert step == restored.iteration
    except CheckpointError:
        assert not any(folder.glob("iter_*"))
    while True:
        step += 1
        learner.supervised(make_rollout(step))
        learner.save(folder, step, {"step": step}, keep=2)
        ready.send(step)
