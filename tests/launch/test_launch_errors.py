"""What a user can get wrong is told in one line, before anything is started."""

from __future__ import annotations

import pytest
from launch.machine import Machine

WRONG = {
    "SLIME_DIR is not set": {"SLIME_DIR": ""},
    "is this a checkout of slime?": {"SLIME_DIR": "bin"},
    "MODE is 'both'; expected one of: colocate": {"MODE": "both"},
    "ROLE is 'boss'": {"ROLE": "boss"},
    "NODES is 'two'; expected a whole number of at least 1": {"NODES": "two"},
    "MASTER_ADDR is not set": {"NODES": "2"},
    "MASTER_ADDR is 127.0.0.1, which no other node": {"NODES": "2", "MASTER_ADDR": "127.0.0.1"},
    "nvidia-smi shows no GPU": {"GPUS": "0"},
    "ROLLOUT_GPUS is 8 of 8": {"MODE": "disaggregate", "ROLLOUT_GPUS": "8"},
    "ROLLOUT_GPUS is 3, no multiple of GPUS_PER_ENGINE=2": {
        "MODE": "async", "ROLLOUT_GPUS": "3", "GPUS_PER_ENGINE": "2",
    },
    "it is a multiple of GPUS_PER_NODE=8": {
        "MODE": "async", "NODES": "2", "MASTER_ADDR": "10.0.0.1", "ROLLOUT_GPUS": "4",
    },
    "a colon in a folder's name": {"MEGATRON_DIR": "a:b"},
    "MEGATRON_DIR: no ": {"MEGATRON_DIR": "elsewhere"},
    "HF_CHECKPOINT: no ": {"MODELS_DIR": "elsewhere"},
    "make it: spader-slime import --hf": {"REF_LOAD": "elsewhere"},
    "TRAIN_DATA: no ": {"TRAIN_DATA": "none.parquet"},
    "EVAL_DATA= leaves evaluation out": {"EVAL_DATA": "none.parquet"},
    "SPADER_CONFIG: no ": {"SPADER_CONFIG": "none.yaml"},
    "MODE=async needs 'rollout: fully_async' in ": {"MODE": "async", "SPADER_CONFIG": "plain.yaml"},
    "spader.gama": {"SPADER_CONFIG": "typo.yaml"},
    "ROUTER_POLICY is 'hash'": {"ROUTER_POLICY": "hash"},
    "can't import sglang_router (not built)": {"PYTHONPATH": "site/broken"},
    "doctor found faults": {"DOCTOR_CODE": "1"},
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_one_line_and_nothing_started(machine: Machine, message: str) -> None:
    machine.write("plain.yaml", "spader: {}\n")
    machine.write("typo.yaml", "spader: {gama: 1}\n")
    machine.write("site/broken/sglang_router/__init__.py", "raise ImportError('not built')\n")
    done = machine.run(**WRONG[message])
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert machine.notes("ray") == []


def test_a_missing_program_is_named(machine: Machine) -> None:
    (machine.folder / "bin/spader-slime").unlink()
    done = machine.run(PATH=f"{machine.folder / 'bin'}:/usr/bin:/bin")
    assert done.stderr.startswith("error: no program 'spader-slime' on PATH")
    (machine.folder / "bin/ray").unlink()
    done = machine.run(PATH=f"{machine.folder / 'bin'}:/usr/bin:/bin", SKIP_DOCTOR="1")
    assert done.stderr.splitlines()[-1].startswith("error: no program 'ray' on PATH")
