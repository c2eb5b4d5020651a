"""The launch scripts' own command lines have no fault that flags can show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from doctor.judging import said
from doctor.models import LLAMA31_8B, QWEN3_8B, QWEN3_30B_A3B
from doctor.setups import model_flags
from launch.machine import ROOT, SCRIPTS, Machine

from spader_slime.config import load_spader
from spader_slime.doctor.checks import CHECKS
from spader_slime.doctor.facts import Facts, Reading
from spader_slime.doctor.facts import Machine as Computer
from spader_slime.doctor.findings import Finding, Severity
from spader_slime.doctor.flags import read_flags
from spader_slime.doctor.model import read_shape
from spader_slime.doctor.run import judge

SHAPES: dict[str, dict[str, Any]] = {
    "qwen3-8B": QWEN3_8B,
    "llama3.1-8B-Instruct": LLAMA31_8B,
    "qwen3-30B-A3B": QWEN3_30B_A3B,
}
THEMES = ("config", "flags", "hooks", "rollout", "loss", "model", "parallel", "batch")


@pytest.mark.parametrize("mode", ["colocate", "async"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_flags_of_a_launch_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, mode: str
) -> None:
    monkeypatch.setenv("SPADER_ROLLOUT", "fully_async" if mode == "async" else "sync")
    found = _found(Machine(tmp_path), SHAPES[SCRIPTS[script][0]], SCRIPTS[script][0], script, mode)
    assert found == [], said(found)


@pytest.mark.parametrize("name", ["eopd.yaml", "spader_eopd.yaml"])
def test_flags_of_the_stage_with_a_teacher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("SPADER_TEACHER_URLS", '["http://10.0.0.2:13141"]')
    machine = Machine(tmp_path)
    for data in ("train", "dev"):
        machine.write(f"data/eopd/{data}.parquet")
    machine.write("models/Qwen3-8B-Base/config.json")
    machine.write("ref/latest_checkpointed_iteration.txt")
    found = _found(
        machine, QWEN3_8B, "qwen3-8B", "eopd/3-eopd-search.sh", "colocate",
        SPADER_CONFIG=str(ROOT / "examples/eopd_search" / name),
        TEACHER_URLS="http://10.0.0.2:13141", REF_LOAD=str(tmp_path / "ref"),
    )  # fmt: skip
    assert found == [], said(found)


def _found(
    machine: Machine, shape: dict[str, Any], model: str, script: str, mode: str, **variables: str
) -> list[Finding]:
    """Errors and warnings on the script's dry run."""
    words = " ".join(f"--{n} {' '.join(v)}" for n, v in model_flags(shape).items())
    machine.write(f"slime/scripts/models/{model}.sh", f"MODEL_ARGS=({words})\n")
    doctor = machine.commands(script=script, MODE=mode, **variables)[0]
    config = Path(doctor[doctor.index("--config") + 1])
    flags = read_flags(doctor[doctor.index("--slime-args") + 1 :])
    machine.write("shape/config.json", json.dumps(shape))
    facts = Facts(
        config,
        ("spader",),
        Reading(load_spader(config)),
        flags,
        Computer((3, 11), {}, Reading()),
        model=Reading(read_shape(machine.folder / "shape")),
    )
    found = judge(facts, [check for check in CHECKS if check.theme in THEMES])
    return [f for f in found if f.severity is not Severity.OK]
