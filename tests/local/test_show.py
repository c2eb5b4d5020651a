"""Rollout dumps read back and shown in the terminal."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console
from support.dumps import QUESTION, write_dump

from spader_slime.errors import ConfigError, DataError
from spader_slime.local.dumps import read_dump
from spader_slime.show import show


def shown(path: Path, **options: int) -> str:
    out = StringIO()
    show(path, **options, console=Console(file=out, width=160))
    return out.getvalue()


def test_a_dump_holds_groups_and_what_each_step_found(tmp_path: Path) -> None:
    groups = read_dump(write_dump(tmp_path / "0.pt"))
    assert [(g.index, g.question, len(g.peers)) for g in groups] == [
        (0, QUESTION, 3),
        (1, QUESTION, 3),
    ]
    careful, hasty, broken = groups[1].peers
    assert careful.new_S == (("Oslo", "Bergen"), ("Bodø",), ())
    assert (hasty.index, broken.credit.included) == (4, False)


def test_peers_stand_side_by_side(tmp_path: Path) -> None:
    text = shown(write_dump(tmp_path / "0.pt"))
    row = next(line for line in text.splitlines() if "peer 0" in line)
    assert "peer 1" in row
    assert "peer 2" in row
    assert "+2 Oslo, Bergen" in text
    assert "search failed: timeout" in text
    assert "left out" in text
    assert "answer Oslo, Rome" in text


def test_narrow_terminals_get_fewer_peers_at_once(tmp_path: Path) -> None:
    text = shown(write_dump(tmp_path / "0.pt"), width=1)
    assert not any("peer 0" in line and "peer 1" in line for line in text.splitlines())
    assert "peer 2" in text


def test_a_group_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--group.*0 to 1"):
        shown(write_dump(tmp_path / "0.pt"), number=2)


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.path,)


def test_a_dump_can_not_run_code(tmp_path: Path) -> None:
    torch.save({"rollout_id": 0, "samples": [Trap(tmp_path / "gone wrong")]}, tmp_path / "0.pt")
    with pytest.raises(DataError, match="plain data"):
        read_dump(tmp_path / "0.pt")
    assert not (tmp_path / "gone wrong").exists()


def test_what_is_no_dump(tmp_path: Path) -> None:
    torch.save({"weights": [1]}, tmp_path / "other.pt")
    (tmp_path / "text.pt").write_text("hello")
    for name in ("other.pt", "text.pt", "missing.pt"):
        with pytest.raises(DataError, match=name):
            read_dump(tmp_path / name)
