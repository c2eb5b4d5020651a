"""The trainer as the embedded host sees it: one object, however many processes work behind it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from spader_slime.local.crew import Alone, Crew
from spader_slime.megatron.checkpoint import Restored
from spader_slime.megatron.settings import LearnerSettings, check_settings
from spader_slime.megatron.shape import ModelConfig

Rows = dict[str, list[Any]]


class TrainerPool:
    """A policy in training on a grid of `settings.world_size` processes.

    A grid of one is this process itself; there can be one of those at a time. Larger grids are
    processes of their own, which end with this object or with the process that made it, however
    it ends. After an error of theirs that is not a fault of the data the pool is closed.

    Args:
        settings: see `LearnerSettings`.
        hf_dir: Hugging Face folder to start from.

    Raises:
        CheckpointError: the folder can't be read or holds an unsupported model.
        ConfigError: settings that contradict each other.
        SpaderError: (from every method) a trainer process failed or died; with its traceback.
    """

    def __init__(self, settings: LearnerSettings, hf_dir: str | Path) -> None:
        check_settings(settings)
        ModelConfig.from_hf(hf_dir)  # what can't be read is said before any process starts
        self.settings = settings
        make = Alone if settings.world_size == 1 else Crew
        self._crew: Alone | Crew = make(settings, Path(hf_dir))

    def __enter__(self) -> TrainerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def train(self, train_data: Sequence[dict[str, Any]], args: Namespace) -> dict[str, float]:
        """One rollout: the advantage hook on the last pipeline stage, then the optimizer steps.

        Args:
            train_data: one mapping per data-parallel rank, as the rollout host splits it.
            args: what the advantage hook gets.

        Returns:
            See `Learner.train`.

        Raises:
            DataError: not one mapping per data-parallel rank, or see `Learner.train`.
        """
        return self._first("train", [(data, args) for data in train_data])

    def supervised(self, batch: Rows, aggregate: str = "token") -> dict[str, float]:
        """See `Learner.supervised`; the whole batch, which is dealt out here."""
        shares = [_rows(batch, own) for own in self._deal(batch)]
        return self._first("supervised", [(share, aggregate) for share in shares])

    def log_probs(self, batch: Rows) -> list[Tensor]:
        """See `Learner.log_probs`; the whole batch, which is dealt out here."""
        rows = self._deal(batch)
        answers = self._crew.call("log_probs", [(_rows(batch, own),) for own in rows])
        by_row = {
            row: values
            for own, answer in zip(rows, answers, strict=True)
            for row, values in zip(own, answer, strict=True)
        }
        return [by_row[row] for row in sorted(by_row)]

    def export_hf(self, folder: str | Path) -> Path:
        """See `Learner.export_hf`."""
        return self._first("export_hf", [(Path(folder),)] * self.settings.dp)

    def save(
        self, folder: str | Path, iteration: int, state: dict[str, Any], keep: int | None = None
    ) -> Path:
        """See `Learner.save`."""
        values = (Path(folder), iteration, state, keep)
        return self._first("save", [values] * self.settings.dp)

    def load(self, folder: str | Path) -> Restored:
        """See `Learner.load`."""
        return self._first("load", [(Path(folder),)] * self.settings.dp)

    def process_ids(self) -> list[int]:
        """Of the trainer processes; none when this process is the grid, or after `close`."""
        return self._crew.process_ids()

    def close(self) -> None:
        """End the trainer processes; a second call does nothing."""
        self._crew.close()

    def _first(self, name: str, inputs: Sequence[tuple[Any, ...]]) -> Any:
        return self._crew.call(name, inputs)[0]

    def _deal(self, batch: Rows) -> list[list[int]]:
        """Rows for every data-parallel rank, longest first."""
        lengths = [len(ids) for ids in batch["tokens"]]
        rows = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
        return [rows[rank :: self.settings.dp] for rank in range(self.settings.dp)]


def _rows(batch: Rows, rows: list[int]) -> Rows:
    return {key: [values[i] for i in rows] for key, values in batch.items()}
