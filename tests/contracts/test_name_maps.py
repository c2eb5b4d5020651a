"""Exports and imports against slime's name maps, and against its own converter."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from contracts.driving import drive, slime_or_skip
from safetensors.torch import load_file
from support.families import CONFIGS, save_hf
from support.megatron_models import fill, make_model, save

from spader_slime.cli import main
from spader_slime.megatron import grid
from spader_slime.megatron.settings import LearnerSettings

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Per family a folder with a checkpoint, what we exported, and what slime made of it."""
    slime_or_skip()
    home = tmp_path_factory.mktemp("families")
    grid.start_grid(LearnerSettings(), grid.Place())
    try:
        for name in CONFIGS:
            _export(name, home / name)
    finally:
        grid.stop_grid()
    folders = [str(home / name) for name in CONFIGS]
    assert drive(HERE / "on_slime_names.py", home / "done.json", *folders) == folders
    return home


def _export(name: str, folder: Path) -> None:
    hf, checkpoint = save_hf(name, folder / "hf"), folder / "megatron"
    model = make_model(hf)
    fill(model)
    save(model, hf, checkpoint)
    names = ["--checkpoint", str(checkpoint), "--origin-hf", str(hf)]
    assert main(["export", *names, "--out", str(folder / "out")]) == 0
    assert main(["import", "--hf", str(hf), "--out", str(folder / "imported")]) == 0


@pytest.mark.parametrize(("ours", "theirs"), [("out", "slime"), ("hf", "slime, imported")])
@pytest.mark.parametrize("name", CONFIGS)
def test_slimes_maps_give_the_same_tensors(
    name: str, ours: str, theirs: str, converted: Path
) -> None:
    a, b = (_tensors(converted / name / folder) for folder in (ours, theirs))
    assert a.keys() == b.keys()
    assert [n for n in a if a[n].shape != b[n].shape] == []
    assert [n for n in a if not torch.equal(a[n], b[n])] == []


def _tensors(folder: Path) -> dict[str, torch.Tensor]:
    return {n: t for file in folder.glob("*.safetensors") for n, t in load_file(file).items()}
