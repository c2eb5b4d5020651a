"""Every script's flags through slime's real `parse_args`, for every mode (`slime_parser.py`).

Needs slime (`SLIME_SRC`, or installed) and Megatron-LM's megatron.training (`MEGATRON_SRC`, a
checkout of the commit that slime's Dockerfile names; or installed).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from contracts.driving import slime_or_skip
from launch.machine import SCRIPTS, Machine, flag
from launch.parser_stage import megatron_source

MODES = ("colocate", "disaggregate", "async")
EOPD = ("eopd/1-sft-math-search.sh", "eopd/2-sft-tau.sh", "eopd/3-eopd-search.sh")
CASES = [
    f"{script} {mode} {nodes}" for script in (*SCRIPTS, EOPD[2]) for mode in MODES for nodes in "12"
] + [f"{script} colocate {nodes}" for script in EOPD[:2] for nodes in "12"]
WRONG = {
    "--no-such-flag 1": "unknown: --no-such-flag",
    "--rollout-temp 1": "unknown: --rollout-temp",  # slime would take it for --rollout-temperature
    "--hidden-size 1024": "AssertionError: hf_validate_args failed: hidden_size",
    "--over-sampling-batch-size 1": "AssertionError: over_sampling_batch_size 1",
    "--rollout-batch-size many": "SystemExit: 2",
}
DENSE = {
    "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "tie_word_embeddings": False,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {  # what slime compares with its flags
    "Qwen3-8B": DENSE | {
        "model_type": "qwen3", "num_hidden_layers": 36, "intermediate_size": 12288,
        "rms_norm_eps": 1e-6, "rope_theta": 1000000,
    },
    "Qwen3-8B-Base": DENSE | {
        "model_type": "qwen3", "num_hidden_layers": 36, "intermediate_size": 12288,
        "rms_norm_eps": 1e-6, "rope_theta": 1000000,
    },
    "Llama-3.1-8B-Instruct": DENSE | {
        "model_type": "llama", "num_hidden_layers": 32, "intermediate_size": 14336,
        "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
    },
    "Qwen3-30B-A3B": DENSE | {
        "model_type": "qwen3_moe", "num_hidden_layers": 48, "intermediate_size": 6144,
        "hidden_size": 2048, "num_key_value_heads": 4, "moe_intermediate_size": 768,
        "num_experts": 128, "rms_norm_eps": 1e-6, "rope_theta": 1000000,
    },
}  # fmt: skip


def policy() -> str:
    """PyPI's build of the router lacks, on its command line, what slime's has."""
    import sglang_router

    return "consistent_hashing" if "slime" in sglang_router.__version__ else "cache_aware"


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    slime = slime_or_skip()
    if megatron_source() is None:
        pytest.skip("megatron.training not importable (MEGATRON_SRC)")
    if find_spec("sglang_router") is None:
        pytest.skip("sglang_router not importable")
    machine = Machine(tmp_path_factory.mktemp("flags") / "a b")
    for name, config in CONFIGS.items():
        machine.write(f"models/{name}/config.json", json.dumps(config))
    return parsed(machine, slime)


def parsed(machine: Machine, slime: str) -> dict[str, str]:
    """What slime's parser says of every case."""
    flags, job = {}, []
    for case in CASES:
        script, mode, nodes = case.split()
        variables = {"MODE": mode, "NODES": nodes, "ROUTER_POLICY": policy(), "SLIME_DIR": slime}
        variables |= {"MASTER_ADDR": "10.0.0.1", "TEACHER_URLS": "http://10.0.0.9:13141"}
        job = machine.job(script=script, **variables)
        flags[case] = job[job.index("--") + 3 :]
    for added in WRONG:
        flags[added] = [*flags[CASES[0]], *added.split()]
    given = machine.write("flags.json", json.dumps(flags))
    program = Path(__file__).with_name("slime_parser.py")
    command = [sys.executable, str(program), slime, str(given), str(machine.folder / "out.json")]
    promised = json.loads(flag(job, "--runtime-env-json") or "")["env_vars"]
    del promised["PYTHONPATH"]
    env = os.environ | promised
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads((machine.folder / "out.json").read_text("utf-8"))
    return found


@pytest.mark.parametrize("case", CASES)
def test_slime_takes_the_flags(verdicts: dict[str, str], case: str) -> None:
    assert verdicts[case] == ""


@pytest.mark.parametrize("added", WRONG)
def test_slime_refuses_what_is_wrong(verdicts: dict[str, str], added: str) -> None:
    assert verdicts[added].startswith(WRONG[added])
