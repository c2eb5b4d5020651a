"""Inside a trainer process: answers calls until the other end of its pipe is gone."""

from __future__ import annotations

import io
import os
import pickle
import signal
import threading
import traceback
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from spader_slime.local.seam import load_function
from spader_slime.megatron.grid import Place, is_last_stage
from spader_slime.megatron.learner import Learner
from spader_slime.megatron.settings import LearnerSettings


def train(learner: Learner, data: dict[str, Any], args: Namespace) -> dict[str, float]:
    """The advantage hook where slime calls it, then the optimizer steps."""
    data = dict(data)
    if is_last_stage():
        load_function(args.custom_advantage_function_path)(args, data)
    return learner.train(data)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "train": train,
    "supervised": Learner.supervised,
    "log_probs": Learner.log_probs,
    "export_hf": Learner.export_hf,
    "save": Learner.save,
    "load": Learner.load,
}


@dataclass(frozen=True)
class Failure:
    """Why there is no answer.

    Attributes:
        rank: of the process.
        kind: class name of the error; None: the process is gone.
        text: the error's own.
        trace: traceback, empty where there is none.
    """

    rank: int
    kind: str | None
    text: str
    trace: str

    @property
    def weight(self) -> int:
        """The smallest one explains the others: who lost a neighbour fails for that reason."""
        if self.kind is None:
            return 0
        return 2 if self.kind in ("RuntimeError", "DistBackendError") else 1


def main(pipe: Connection, settings: LearnerSettings, hf_dir: Path, where: Place) -> None:
    """Target of a trainer process: join the grid, say so, then answer calls."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    threading.Thread(target=_follow_parent, daemon=True).start()
    learner = _answer(pipe, where.rank, lambda: Learner(settings, hf_dir, where), silent=True)
    while learner is not None:
        try:
            name, inputs = unpack(pipe.recv_bytes())
        except EOFError:
            break
        call = OPERATIONS[name]
        _answer(pipe, where.rank, lambda: call(learner, *inputs))  # noqa: B023


def _answer(pipe: Connection, rank: int, call: Callable[[], Any], silent: bool = False) -> Any:
    """Send what `call` returns (`silent`: just that it did), or the failure; None after that."""
    try:
        result = call()
    except Exception as error:
        pipe.send_bytes(pack(_failure(rank, error)))
        return None
    pipe.send_bytes(pack(None if silent else result))
    return result


def _failure(rank: int, error: Exception) -> Failure:
    return Failure(rank, type(error).__name__, str(error), traceback.format_exc())


def _follow_parent() -> None:
    """End at once when the parent is gone, even in the middle of a collective operation."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


class _Pickler(pickle.Pickler):
    """Tensors travel as numpy arrays: ten times faster than torch's own way, for small ones."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return torch.from_numpy, (value.detach().cpu().numpy(),)
        return NotImplemented


def pack(value: Any) -> bytes:
    """Bytes for the pipe."""
    stream = io.BytesIO()
    _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump(value)
    return stream.getvalue()


def unpack(message: bytes) -> Any:
    """Inverse of `pack`."""
    return pickle.loads(message)
