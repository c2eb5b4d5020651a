"""`spader-slime import` and `export`: every family there and back, bit by bit; faults refused."""

from __future__ import annotations

import errno
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.families import CONFIGS, save_hf
from transformers import AutoModelForCausalLM

from spader_slime.cli import main

CASES = [
    (name, spec, layers)
    for name in CONFIGS
    for spec in ("te", "local")
    for layers in ("stacked", "numbered")
    if name != "qwen3-moe-mixed" or layers == "numbered"
]


def _there(hf: Path, out: Path, *more: str) -> int:
    return main(["import", "--hf", str(hf), "--out", str(out), *more])


def _back(checkpoint: Path, hf: Path, out: Path, *more: str) -> int:
    folders = ["--checkpoint", str(checkpoint), "--origin-hf", str(hf), "--out", str(out)]
    return main(["export", *folders, *more])


@pytest.mark.parametrize(("name", "spec", "layers"), CASES)
def test_there_and_back(name: str, spec: str, layers: str, tmp_path: Path) -> None:
    hf = save_hf(name, tmp_path / "hf")
    assert _there(hf, tmp_path / "mcore", "--spec", spec, "--layers", layers) == 0
    assert _back(tmp_path / "mcore", hf, tmp_path / "out") == 0
    before, after = (load_file(f / "model.safetensors") for f in (hf, tmp_path / "out"))
    assert before.keys() == after.keys()
    assert [name for name in before if not torch.equal(before[name], after[name])] == []
    loaded, origin = (AutoModelForCausalLM.from_pretrained(f) for f in (tmp_path / "out", hf))
    assert type(loaded) is type(origin)


def test_many_shards_hold_the_same(tmp_path: Path) -> None:
    hf = save_hf("qwen3", tmp_path / "hf")
    assert _there(hf, tmp_path / "mcore") == 0
    assert _back(tmp_path / "mcore", hf, tmp_path / "out", "--shard-size", "2e-5") == 0
    shards = sorted((tmp_path / "out").glob("*.safetensors"))
    assert len(shards) > 2
    after = {name: value for shard in shards for name, value in load_file(shard).items()}
    before = load_file(hf / "model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_tied_head_that_the_origin_stores_is_stored_again(tmp_path: Path) -> None:
    hf = save_hf("qwen3-tied", tmp_path / "hf")
    weights = load_file(hf / "model.safetensors")
    assert "lm_head.weight" not in weights
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()
    save_file(weights, hf / "model.safetensors", {"format": "pt"})
    assert _there(hf, tmp_path / "mcore") == 0
    assert _back(tmp_path / "mcore", hf, tmp_path / "out", "--verify") == 0
    after = load_file(tmp_path / "out" / "model.safetensors")
    assert after.keys() == weights.keys()
    assert all(torch.equal(after[name], weights[name]) for name in weights)


def _refuse_to_copy(*_: object) -> int:
    raise OSError(errno.EXDEV, "another file system")


def _copy_nothing(*_: object) -> int:
    return 0


@pytest.mark.parametrize("copy", [_refuse_to_copy, _copy_nothing, None])
def test_where_the_kernel_does_not_copy(
    copy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hf = save_hf("qwen3-moe", tmp_path / "hf")
    assert _there(hf, tmp_path / "mcore") == 0
    if copy is None:
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    else:
        monkeypatch.setattr(os, "copy_file_range", copy, raising=False)
    assert _back(tmp_path / "mcore", hf, tmp_path / "out") == 0
    before, after = (load_file(f / "model.safetensors") for f in (hf, tmp_path / "out"))
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", CONFIGS)
def test_other_dtypes(name: str, dtype: str, tmp_path: Path) -> None:
    """Cast on the way out, or on the way in."""
    hf = save_hf(name, tmp_path / "hf")
    assert _there(hf, tmp_path / "mcore") == 0
    assert _back(tmp_path / "mcore", hf, tmp_path / "out", "--dtype", dtype, "--verify") == 0
    assert _there(hf, tmp_path / "small", "--dtype", dtype) == 0
    assert _back(tmp_path / "small", hf, tmp_path / "again", "--verify") == 0
    origin = load_file(hf / "model.safetensors")
    expected = {name: value.to(getattr(torch, dtype)) for name, value in origin.items()}
    for out in (tmp_path / "out", tmp_path / "again"):
        found = load_file(out / "model.safetensors")
        assert found.keys() == expected.keys()
        assert all(found[n].dtype == expected[n].dtype for n in found)
        assert all(torch.equal(found[n], expected[n]) for n in found)
        values = json.loads((out / "config.json").read_text())
        assert dtype in (values.get("dtype"), values.get("torch_dtype"))


@pytest.mark.parametrize("way", ["there", "back"])
def test_values_that_float16_can_not_hold(
    way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hf = save_hf("llama3", tmp_path / "hf")
    weights = load_file(hf / "model.safetensors")
    weights["model.layers.1.mlp.up_proj.weight"][3, 4] = 1e5
    save_file(weights, hf / "model.safetensors", {"format": "pt"})
    half = ("--dtype", "float16")
    if way == "there":
        assert _there(hf, tmp_path / "mcore", *half) == 2
    else:
        assert _there(hf, tmp_path / "mcore") == 0
        assert _back(tmp_path / "mcore", hf, tmp_path / "out", *half) == 2
        assert not (tmp_path / "out").exists() and not (tmp_path / ".out.part").exists()
    assert "model.layers.1.mlp.up_proj.weight: values too large" in capsys.readouterr().err


@pytest.mark.parametrize("name", [".metadata", "common.pt"])
def test_a_hostile_pickle_runs_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hf = save_hf("llama3", tmp_path / "hf")
    assert _there(hf, tmp_path / "mcore") == 0
    (file,) = (tmp_path / "mcore").rglob(name)
    torch.save(_Hostile(tmp_path / "ran"), file) if name == "common.pt" else file.write_bytes(
        pickle.dumps(_Hostile(tmp_path / "ran"))
    )
    assert _back(tmp_path / "mcore", hf, tmp_path / "out") == 2
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out").exists()
    assert "system" in capsys.readouterr().err


class _Hostile:
    """Unpickling it would make a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.system, (f"mkdir '{self.folder}'",)


def test_a_cut_off_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hf = save_hf("qwen2.5", tmp_path / "hf")
    assert _there(hf, tmp_path / "mcore") == 0
    largest = max((tmp_path / "mcore").rglob("*.distcp"), key=lambda file: file.stat().st_size)
    os.truncate(largest, largest.stat().st_size // 2)
    assert _back(tmp_path / "mcore", hf, tmp_path / "out") == 2
    assert largest.name in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    assert _there(save_hf("llama3", tmp_path / "llama"), tmp_path / "mcore") == 0
    other = save_hf("qwen3", tmp_path / "qwen")
    assert _back(tmp_path / "mcore", other, tmp_path / "out") == 2
    assert not (tmp_path / "out").exists()
