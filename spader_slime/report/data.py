"""What a report is made of: everything a run has left so far, whatever of it there is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spader_slime.config import read_yaml
from spader_slime.errors import DataError
from spader_slime.local.dumps import Group, read_dump
from spader_slime.local.metrics_log import read_metrics


@dataclass(frozen=True)
class Curve:
    """A metric over iterations; both arrays have one entry per measurement."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class RunData:
    """One run, finished or not.

    Attributes:
        root: its folder.
        config: `config.yaml`, empty if it is missing.
        lines: `metrics.jsonl`.
        result: `result.json`, empty while the run goes on.
        world: `world.json` of its world, empty if it is not in the folder.
    """

    root: Path
    config: Mapping[str, Any]
    lines: list[dict[str, Any]]
    result: Mapping[str, Any]
    world: Mapping[str, Any]

    def curve(self, phase: str, key: str) -> Curve:
        """The measured values of `key`; empty where it never was."""
        rows = [r for r in self.lines if r["phase"] == phase and r.get(key) is not None]
        points = np.array([(r["iteration"], r[key]) for r in rows], dtype=float).reshape(-1, 2)
        return Curve(points[:, 0], points[:, 1])

    def setting(self, path: str, default: Any = None) -> Any:
        """A value of the configuration by its dotted name."""
        node: Any = self.config
        for name in path.split("."):
            node = node.get(name) if isinstance(node, Mapping) else None
        return default if node is None else node

    def scores(self, when: str, split: str) -> Mapping[str, float]:
        """Held-out metrics `before` or `after`, empty where they are not there."""
        found = self.result.get(when) or {}
        return found.get(split) or {}

    def baseline(self, name: str, split: str) -> Mapping[str, float]:
        """What a script without a model scored, empty where that is not there."""
        found = (self.result.get("baselines") or {}).get(name) or {}
        return found.get(split) or {}

    @property
    def splits(self) -> list[str]:
        """Held-out splits with a score after training, the test split first."""
        return sorted(self.result.get("after") or {}, key=lambda split: (split != "test", split))

    @property
    def seconds(self) -> dict[str, float]:
        """Wall-clock seconds by activity."""
        if self.result.get("seconds"):
            return dict(self.result["seconds"])
        totals: dict[str, float] = {}
        for line in self.lines:
            for key, value in line.items():
                if key.startswith("time/") and value is not None:
                    name = key.removeprefix("time/")
                    totals[name] = totals.get(name, 0.0) + value
        return totals

    @cached_property
    def last_group(self) -> Group | None:
        """The most telling group of the newest training dump: the one with the most searches."""
        dumps = sorted(self.root.glob("dumps/[0-9]*.pt"), key=lambda path: int(path.stem))
        groups = read_dump(dumps[-1]) if dumps else []
        return max(groups, key=_searches, default=None)


def _searches(group: Group) -> int:
    return sum(len(peer.episode.turns) for peer in group.peers)


def load_run(root: Path) -> RunData:
    """Read a run's folder.

    Raises:
        DataError: nothing was measured there yet, or a file of it is damaged.
    """
    lines = read_metrics(root / "metrics.jsonl")
    if not lines:
        raise DataError(f"{root} holds no run: there are no metrics in {root / 'metrics.jsonl'}")
    config = root / "config.yaml"
    settings = read_yaml(config) if config.exists() else {}
    world = Path((settings.get("world") or {}).get("path") or root / "world") / "world.json"
    return RunData(root, settings, lines, _json(root / "result.json"), _json(world))


def _json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error})") from error
    return found
