"""The folder of one run: where its files lie, and that only one process writes them."""

from __future__ import annotations

import fcntl
import json
import math
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from omegaconf import OmegaConf

from spader_slime.config import dotted, read_yaml
from spader_slime.errors import ConfigError
from spader_slime.files import write_whole
from spader_slime.local.metrics_log import MetricsLog

if TYPE_CHECKING:
    from spader_slime.local.settings import TrainConfig

# What may change when a run goes on: how long and how often, not what is learned.
_MAY_CHANGE = (
    "run.dir",
    "run.iterations",
    "run.checkpoint_every",
    "run.keep_checkpoints",
    "run.dump_every",
    "run.report",
    "cold_start.checkpoint_every",
    "engine",
    "train.threads",
    "spader.search.urls",
    "spader.distillation.urls",
)


class RunDir:
    """A run's folder; as a context manager it holds the folder's lock (docs/run-directory.md).

    Raises:
        ConfigError: on entering, when another process is writing to the folder.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self.metrics = MetricsLog(self.root / "metrics.jsonl", self.root / "tensorboard")
        self._lock: IO[str] | None = None

    @property
    def config(self) -> Path:
        """The resolved configuration, every key written out."""
        return self.root / "config.yaml"

    @property
    def result(self) -> Path:
        """Scores before and after, baselines, time and memory; there when the run is done."""
        return self.root / "result.json"

    @property
    def report(self) -> Path:
        """The page that shows what was learned."""
        return self.root / "report.html"

    @property
    def plots(self) -> Path:
        """The report's pictures as PNG files."""
        return self.root / "plots"

    @property
    def dumps(self) -> Path:
        """Rollouts with all their samples, `<rollout id>.pt`."""
        return self.root / "dumps"

    @property
    def checkpoints(self) -> Path:
        """Trainer checkpoints in torch_dist format."""
        return self.root / "checkpoints"

    @property
    def hf(self) -> Path:
        """The trained policy as a Hugging Face folder, tokenizer included."""
        return self.root / "hf"

    @property
    def world(self) -> Path:
        """The embedded world, when the run has built its own."""
        return self.root / "world"

    def write_json(self, path: Path, value: Any) -> Path:
        """Write `value` whole or not at all; numbers that are not finite become null."""
        return self.write_text(path, json.dumps(finite(value), indent=2) + "\n")

    def write_text(self, path: Path, text: str) -> Path:
        """Write `text` whole or not at all (beside, then renamed)."""
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_whole(path, text.encode())

    def write_config(self, config: TrainConfig) -> None:
        """Keep the resolved configuration.

        Raises:
            ConfigError: the folder holds a run with other settings; names the first that differs.
        """
        text = OmegaConf.to_yaml(OmegaConf.structured(config))
        if self.config.exists():
            _check_same(
                read_yaml(self.config), OmegaConf.to_container(OmegaConf.create(text)), self
            )
        self.write_text(self.config, text)

    def __enter__(self) -> RunDir:
        self.root.mkdir(parents=True, exist_ok=True)
        lock = (self.root / ".lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            lock.close()
            raise ConfigError(
                "run.dir", str(self.root), f"a folder that no run is writing to (now: {holder})"
            ) from error
        lock.truncate(0)
        lock.write(f"process {os.getpid()}\n")
        lock.flush()
        self._lock = lock
        return self

    def __exit__(self, *error: object) -> None:
        self.metrics.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def finite(value: Any) -> Any:
    """A copy of plain containers in which numbers that are not finite are None."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _check_same(old: dict[str, Any], new: Any, run: RunDir) -> None:
    before, now = dotted(old), dotted(new)
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key) and not _free(key):
            raise ConfigError(
                key, now.get(key), f"{before.get(key)!r} as in {run.config}, or another run.dir"
            )


def _free(key: str) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in _MAY_CHANGE)
