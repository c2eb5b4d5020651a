"""Shapes read from config.json, and sizes that have to divide them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from doctor.models import LLAMA31_8B, QWEN3_8B, QWEN3_30B_A3B

from spader_slime.config import SpaderConfig
from spader_slime.doctor.checks import parallel
from spader_slime.doctor.facts import Facts, Machine, Reading
from spader_slime.doctor.findings import Severity
from spader_slime.doctor.flags import read_flags
from spader_slime.doctor.model import ModelShape, read_shape
from spader_slime.errors import DataError

MACHINE = Machine((3, 11), {}, Reading())


def shape_of(folder: Path, fields: dict[str, Any]) -> ModelShape:
    (folder / "config.json").write_text(json.dumps(fields))
    return read_shape(folder)


@pytest.mark.parametrize(
    ("fields", "billions"), [(QWEN3_8B, 8.19), (LLAMA31_8B, 8.03), (QWEN3_30B_A3B, 30.53)]
)
def test_parameters_of_public_models(
    tmp_path: Path, fields: dict[str, Any], billions: float
) -> None:
    """The published counts."""
    assert shape_of(tmp_path, fields).parameters / 1e9 == pytest.approx(billions, rel=2e-3)


def test_a_model_of_images_and_text_is_read_by_its_text_part(tmp_path: Path) -> None:
    nested = {"model_type": "both", "text_config": QWEN3_8B}
    assert shape_of(tmp_path, nested) == shape_of(tmp_path, QWEN3_8B)


@pytest.mark.parametrize("text", ["", "[]", '{"hidden_size": 8}', '{"num_attention_heads": "x"}'])
def test_other_files_are_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(DataError, match=r"config\.json"):
        read_shape(tmp_path)


def complaints(model: ModelShape, words: str) -> list[str]:
    """Flags that the check of parallel sizes complains about."""
    flags = read_flags(f"{words} --colocate".split())
    facts = Facts(Path("c"), (), Reading(SpaderConfig()), flags, MACHINE, model=Reading(model))
    return [f.what for f in parallel.check(facts) if f.severity is not Severity.OK]


TP, PP, CP, EP = (
    f"--{name}-parallel-size"
    for name in ("tensor-model", "pipeline-model", "context", "expert-model")
)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (f"{TP} 8", []),
        (f"{TP} 16 --actor-num-nodes 2", [TP]),  # 8 key/value heads
        (f"{TP} 3 --actor-num-gpus-per-node 6", [TP, TP]),  # 32 heads and 8; 12288 divides
        (f"{PP} 5 --actor-num-gpus-per-node 5", [PP]),
        (f"{PP} 5 --actor-num-gpus-per-node 5 --decoder-last-pipeline-num-layers 4", []),
        (f"{PP} 2 --decoder-first-pipeline-num-layers 17", []),
        ("--decoder-first-pipeline-num-layers 17", ["--decoder-*-pipeline-num-layers"]),
        (f"{CP} 3", [f"{TP} {PP} {CP}"]),
        (f"{EP} 2", [EP]),
        ("--allgather-cp", []),
        (f"--allgather-cp {CP} 2", ["--allgather-cp"]),
        ("--rollout-num-gpus-per-engine 3", ["--rollout-num-gpus-per-engine"] * 2),
        ("--actor-num-nodes 2 --actor-num-gpus-per-node 4", ["--num-gpus-per-node"]),
        ("--actor-num-nodes 2 --actor-num-gpus-per-node 4 --num-gpus-per-node 4", []),
    ],
)
def test_sizes_of_a_dense_model(tmp_path: Path, words: str, wrong: list[str]) -> None:
    assert complaints(shape_of(tmp_path, QWEN3_8B), words) == wrong


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (f"{EP} 8", []),
        (f"{EP} 8 {TP} 4 --sequence-parallel --expert-tensor-parallel-size 1", []),
        (f"{EP} 8 {TP} 4 --expert-tensor-parallel-size 1", ["--sequence-parallel"]),
        (f"{EP} 8 {TP} 4 --sequence-parallel", [EP]),  # experts are split like the rest
        (f"{EP} 3", [EP, EP]),
        (f"{TP} 8 {EP} 1 --sequence-parallel", [TP]),  # 4 key/value heads
    ],
)
def test_sizes_of_experts(tmp_path: Path, words: str, wrong: list[str]) -> None:
    assert complaints(shape_of(tmp_path, QWEN3_30B_A3B), words) == wrong
