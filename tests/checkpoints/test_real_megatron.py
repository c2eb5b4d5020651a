"""Checkpoints that Megatron-core wrote: exported, they are the model that Megatron computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support.engines import plain_model, prompt, serving
from support.families import CONFIGS, save_hf
from support.grids import quick_context
from support.megatron_models import fill, load, logits, make_model, resave, save

from spader_slime.cli import main

VOCAB = 259
GRIDS = {
    "tp2-ep2": {"tensor_model_parallel_size": 2, "expert_model_parallel_size": 2},
    "pp2-ep2": {"pipeline_model_parallel_size": 2, "expert_model_parallel_size": 2},
    "tp2-pp2": {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2},
}


@pytest.fixture(params=CONFIGS)
def trained(request: pytest.FixtureRequest, alone: None, tmp_path: Path) -> tuple[Any, Path]:
    """A Megatron model, and the folder that its checkpoint was exported to."""
    return _exported(request.param, tmp_path)


def _exported(name: str, folder: Path) -> tuple[Any, Path]:
    hf = save_hf(name, folder / "hf")
    model = make_model(hf)
    fill(model)
    save(model, hf, folder / "megatron")
    assert _export(folder / "megatron", hf, folder / "out") == 0
    return model, folder / "out"


def _export(checkpoint: Path, hf: Path, out: Path) -> int:
    folders = ["--checkpoint", str(checkpoint), "--origin-hf", str(hf), "--out", str(out)]
    return main(["export", *folders, "--verify"])


def test_transformers_computes_the_same_logits(trained: tuple[Any, Path]) -> None:
    model, out = trained
    tokens = torch.randint(VOCAB, (3, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        theirs = plain_model(out)(tokens).logits
    assert float(theirs.std()) > 0.3
    torch.testing.assert_close(theirs, logits(model, tokens, VOCAB), rtol=0, atol=1e-5)


def test_greedy_tokens_are_the_engines(trained: tuple[Any, Path]) -> None:
    model, out = trained
    ids = prompt(20, seed=2)
    made = plain_model(out).generate(torch.tensor([ids]), max_new_tokens=24, do_sample=False)
    with serving(out, rows=2, context=64) as engine:
        reply = engine.generate(ids, temperature=0, max_new_tokens=24)
    assert reply["output_ids"] == made[0, len(ids) :].tolist()
    assert reply["output_ids"] == _greedy(model, ids, len(reply["output_ids"]))


def _greedy(model: Any, ids: list[int], count: int) -> list[int]:
    """Megatron's own choices."""
    tokens = list(ids)
    for _ in range(count):
        tokens.append(int(logits(model, torch.tensor([tokens]), VOCAB)[0, -1].argmax()))
    return tokens[len(ids) :]


@pytest.mark.parametrize("name", CONFIGS)
def test_megatron_starts_from_an_import(name: str, alone: None, tmp_path: Path) -> None:
    hf, out = save_hf(name, tmp_path / "hf", std=0.15), tmp_path / "out"
    stacked = ["--layers", "stacked"] if name == "qwen3-moe" else []
    assert main(["import", "--hf", str(hf), "--out", str(out), "--spec", "local", *stacked]) == 0
    model = make_model(hf)
    load(model, out / "release")
    tokens = torch.randint(VOCAB, (2, 40), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        theirs = plain_model(hf)(tokens).logits
    torch.testing.assert_close(logits(model, tokens, VOCAB), theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("name", ["qwen3-moe", "qwen3-moe-mixed"])
def test_experts_on_grids_of_processes(name: str, grid: str, alone: None, tmp_path: Path) -> None:
    _, expected = _exported(name, tmp_path)
    hf, source, target = tmp_path / "hf", tmp_path / "megatron/iter_0000007", tmp_path / "grid"
    sizes = {**GRIDS[grid], "world": 4}
    context = quick_context()
    ranks = [
        context.Process(target=resave, args=(rank, sizes, hf, source, target)) for rank in range(4)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    assert [process.exitcode for process in ranks] == [0] * 4
    assert _export(target, hf, tmp_path / "from grid") == 0
    ours, theirs = (load_file(f / "model.safetensors") for f in (tmp_path / "from grid", expected))
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
