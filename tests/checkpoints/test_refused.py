"""What `export` and `import` refuse: one line, exit 2, no output, nothing else touched."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from support.families import save_hf

from spader_slime.cli import main


@pytest.fixture(scope="module")
def hf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_hf("qwen3", tmp_path_factory.mktemp("model") / "hf")


@pytest.fixture(scope="module")
def imported(hf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("checkpoint") / "megatron"
    assert main(["import", "--hf", str(hf), "--out", str(made)]) == 0
    return made


@pytest.fixture
def checkpoint(imported: Path, tmp_path: Path) -> Path:
    """A copy of one's own."""
    return shutil.copytree(imported, tmp_path / "megatron")


def export(checkpoint: Path, origin: Path, out: Path, *more: str) -> int:
    folders = ["--checkpoint", checkpoint, "--origin-hf", origin, "--out", out]
    return main(["export", *map(str, folders), *more])


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """The only line beside progress bars."""
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "spader-slime:" in one]
    return line


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [cut, Path.unlink, folder_instead, Path.touch])
@pytest.mark.parametrize("name", [".metadata", "common.pt", "metadata.json", "__0_0.distcp"])
def test_half_checkpoints(
    damage: Callable[[Path], None],
    name: str,
    checkpoint: Path,
    hf: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(checkpoint / "release" / name)
    optional = name in ("common.pt", "metadata.json") and damage is Path.unlink
    fine = optional or damage is Path.touch
    assert export(checkpoint, hf, tmp_path / "out") == (0 if fine else 2)
    assert (tmp_path / "out").exists() == fine and not list(tmp_path.glob(".out*"))
    assert fine or "release" in said(capsys)


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "fewer layers": ({"num_hidden_layers": 3}, "[4, 32], the config of this qwen3 model needs [3"),
    "no end of layers": ({"num_hidden_layers": 10**9}, "layers is 1000000000"),
    "smaller vocabulary": ({"vocab_size": 200}, "trained with a vocabulary of 259"),
    "larger vocabulary": ({"vocab_size": 300}, "needs [300, 32]"),
    "tied": ({"tie_word_embeddings": True}, "without a rule: output_layer.weight"),
    "heads": ({"num_attention_heads": 3}, "3 attention heads can't share 2"),
    "no number": ({"hidden_size": "32"}, "hidden is '32'"),
    "nothing": ({"hidden_size": None}, "hidden is None"),
    "negative": ({"hidden_size": -1}, "hidden is -1"),
    "family": (
        {"model_type": "llama"},
        "decoder.layers.self_attention.k_layernorm",
    ),
    "no family": ({"model_type": "gpt2"}, "'gpt2' is not supported (known: llama, "),
    "bias": ({"attention_bias": True}, "attention_bias is not supported"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_configs_of_other_models(
    fault: str, imported: Path, hf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, message = FAULTS[fault]
    other = changed(hf, tmp_path / "other", **changes)
    assert export(imported, other, tmp_path / "out") == 2
    assert message in said(capsys)
    assert main(["import", "--hf", str(other), "--out", str(tmp_path / "out")]) in (0, 2)
    assert "Traceback" not in capsys.readouterr().err


def changed(hf: Path, folder: Path, **changes: Any) -> Path:
    shutil.copytree(hf, folder)
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(values | changes))
    return folder


def test_quantized_origins(
    imported: Path, hf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The export is not quantized and says so; an import has nothing to read."""
    other = changed(hf, tmp_path / "other", quantization_config={"quant_method": "fp8"})
    assert export(imported, other, tmp_path / "out") == 0
    assert "quantization_config" not in json.loads((tmp_path / "out/config.json").read_text())
    assert main(["import", "--hf", str(other), "--out", str(tmp_path / "back")]) == 2
    assert "quantized" in said(capsys)


def test_what_is_read_is_never_replaced(
    checkpoint: Path, hf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    origin = shutil.copytree(hf, tmp_path / "origin")
    weights = load_file(origin / "model.safetensors").keys()
    for out in (origin, checkpoint, tmp_path, origin / "..", Path("/")):
        assert export(checkpoint, origin, out, "--force") == 2
        assert "is read from there" in said(capsys)
    assert export(checkpoint, origin, checkpoint / "release", "--force") == 2
    assert main(["import", "--hf", str(origin), "--out", str(origin), "--force"]) == 2
    assert load_file(origin / "model.safetensors").keys() == weights
    assert (checkpoint / "release" / ".metadata").exists()


def test_force_replaces_only_earlier_outputs(
    imported: Path, hf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other, empty = tmp_path / "file", tmp_path / "other", tmp_path / "empty"
    file.write_text("mine")
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    empty.mkdir()
    for out in (file, other):
        assert export(imported, hf, out, "--force") == 2
        assert "not made by this command" in said(capsys)
    assert file.read_text() == (other / "thesis.tex").read_text() == "mine"
    assert export(imported, hf, empty) == 0
    assert export(imported, hf, empty) == 2
    assert "--force replaces it" in said(capsys)
    (empty / "old").touch()
    assert export(imported, hf, empty, "--force") == 0 and not (empty / "old").exists()


@pytest.mark.parametrize("size", ["0", "-1", "nan", "inf", "much"])
def test_shard_sizes(size: str, imported: Path, hf: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        export(imported, hf, tmp_path / "out", f"--shard-size={size}")


RUN_FILES = {
    "config.yaml": [b"\xff\xfe", b"a: [1"],
    "result.json": [b"{", b"\xff"],
}


@pytest.mark.parametrize("name", RUN_FILES)
def test_damaged_run_files(
    name: str, imported: Path, hf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for content in RUN_FILES[name]:
        (tmp_path / name).write_bytes(content)
        assert export(imported, hf, tmp_path / "out", "--run", str(tmp_path)) == 2
        assert name in said(capsys) and not (tmp_path / "out").exists()


RESULTS = ("3", '{"after": 3}', '{"after": {"dev": 3}}', '{"before": [1]}')


@pytest.mark.parametrize("result", RESULTS)
def test_run_files_without_metrics(result: str, imported: Path, hf: Path, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(result)
    assert export(imported, hf, tmp_path / "out", "--run", str(tmp_path)) == 0
