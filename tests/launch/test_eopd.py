"""The stages of the EOPD pipeline: flags, what each takes from the one before, faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from launch.machine import QWEN, ROOT, Machine, flag

from spader_slime.config import load_spader

MATH, TAU, SEARCH = (
    "eopd/1-sft-math-search.sh", "eopd/2-sft-tau.sh", "eopd/3-eopd-search.sh",
)  # fmt: skip
EXAMPLES = ROOT / "examples/eopd_search"
URLS = "http://10.0.0.2:13141 http://10.0.0.2:13142"
TEACHER: dict[str, Any] = {"TEACHER_URLS": URLS}


@pytest.fixture
def machine(machine: Machine) -> Machine:
    """With the base model, and checkpoints of every stage."""
    machine.write("models/Qwen3-8B-Base/config.json")
    machine.write("models/Qwen3-8B-Base_torch_dist/latest_checkpointed_iteration.txt")
    machine.write("stage/latest_checkpointed_iteration.txt")
    for name in ("math-search", "tau", "train", "dev"):
        machine.write(f"data/eopd/{name}.parquet")
    return machine


@pytest.mark.parametrize(("script", "data"), [(MATH, "math-search"), (TAU, "tau")])
def test_fine_tuning(machine: Machine, script: str, data: str) -> None:
    check, _, job, _ = machine.commands(script=script)
    assert Path(job[job.index("--") + 2]).name == "train_async.py"
    assert flag(job, "--loss-type") == "sft_loss"
    rollout = "spader_slime.data.sft_rollout.generate_rollout"
    assert flag(job, "--rollout-function-path") == rollout
    assert flag(job, "--prompt-data") == str(machine.folder / f"data/eopd/{data}.parquet")
    assert flag(job, "--input-key") == "messages" and flag(job, "--tool-key") == "tools"
    assert {"--debug-train-only", "--disable-compute-advantages-and-returns"} <= set(job)
    unwanted = {"--colocate", "--group-rm", "--use-kl-loss", "--eval-interval", "--router-policy"}
    assert not unwanted & set(job) and not [w for w in job if w.startswith("spader_slime.hooks")]
    assert check[:4] == ["spader-slime", "data", "sft-check", flag(job, "--prompt-data")]
    assert flag(check, "--tokenizer") == flag(job, "--hf-checkpoint")


def test_rows_must_fit_into_a_micro_batch(machine: Machine) -> None:
    words = {"MAX_TOKENS_PER_GPU": "4096", "CP": "2", "TRAIN_DATA": "x.parquet@[0:9]"}
    check, _, job, _ = machine.commands(script=MATH, **words)
    assert flag(check, "--max-tokens") == "8192"
    assert check[3] == str(machine.folder / "x.parquet")
    assert flag(job, "--prompt-data") == str(machine.folder / "x.parquet@[0:9]")


def test_slimes_own_rollout_function(machine: Machine) -> None:
    job = machine.job("--lr", "2e-5", script=MATH, SFT_ROLLOUT="slime", SFT_BATCH="32")
    rollout = "slime.rollout.sft_rollout.generate_rollout"
    assert flag(job, "--rollout-function-path") == rollout
    assert flag(job, "--loss-mask-type") == "qwen3"
    assert flag(job, "--global-batch-size") == flag(job, "--rollout-batch-size") == "32"
    assert flag(job, "--lr") == "2e-5"


def test_each_stage_starts_where_the_one_before_ended(machine: Machine) -> None:
    stages = [machine.job(script=s, RUN_DIR="unset", **TEACHER) for s in (MATH, TAU, SEARCH)]
    first, second, third = stages
    base = machine.folder / "models/Qwen3-8B-Base"
    assert flag(first, "--ref-load") == f"{base}_torch_dist"
    assert flag(second, "--ref-load") == flag(first, "--save")
    assert flag(third, "--ref-load") == flag(second, "--save")
    assert {flag(job, "--hf-checkpoint") for job in stages} == {str(base)}


@pytest.mark.parametrize("name", ["eopd.yaml", "spader_eopd.yaml"])
def test_distillation(machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    job = machine.job(script=SEARCH, SPADER_CONFIG=str(EXAMPLES / name), **TEACHER)
    assert flag(job, "--num-rollout") == "300"
    assert flag(job, "--loss-type") == "custom_loss"
    assert flag(job, "--custom-loss-function-path") == "spader_slime.hooks.policy_loss"
    assert "--use-kl-loss" not in job and "--use-opd" not in job
    variables = json.loads(flag(job, "--runtime-env-json") or "")["env_vars"]
    monkeypatch.setenv("SPADER_TEACHER_URLS", variables["SPADER_TEACHER_URLS"])
    config = load_spader(flag(job, "--custom-config-path"))
    assert config.distillation.urls == URLS.split() and config.distillation.top_k == 16
    assert config.agent.protocol == "search_r1"
    assert config.distillation.task_reward is (name == "spader_eopd.yaml")
    assert config.estimator == ("spa" if config.distillation.task_reward else "grpo")


def test_both_share_agent_and_search() -> None:
    alone, both = (load_spader(EXAMPLES / name) for name in ("eopd.yaml", "spader_eopd.yaml"))
    assert (alone.agent, alone.search) == (both.agent, both.search)
    assert both.reward == load_spader(ROOT / "examples/qampari/qwen3.yaml").reward


def test_slimes_own_reverse_kl(machine: Machine) -> None:
    distillation = "{urls: [http://a:1], reverse: opd, reverse_kl_coef: 0.5}"
    config = machine.write("opd.yaml", f"spader: {{distillation: {distillation}}}\n")
    job = machine.job(script=SEARCH, SPADER_CONFIG=str(config), KL_COEF="0.001", **TEACHER)
    assert "--use-opd" in job and flag(job, "--opd-type") == "sglang"
    assert flag(job, "--opd-kl-coef") == "0.5" and flag(job, "--kl-loss-coef") == "0.001"


def test_a_teacher_in_the_yaml_file_brings_our_loss_to_any_script(machine: Machine) -> None:
    job = machine.job(script=QWEN, SPADER_CONFIG=str(EXAMPLES / "spader_eopd.yaml"), **TEACHER)
    assert flag(job, "--custom-loss-function-path") == "spader_slime.hooks.policy_loss"
    assert flag(job, "--kl-loss-coef") == "0.001" and "--num-rollout" not in job


WRONG: dict[str, tuple[str, dict[str, str]]] = {
    "TEACHER_URLS is not set; launch/eopd/serve-teacher.sh": (SEARCH, {"TEACHER_URLS": "unset"}),
    "no teacher answers at http://127.0.0.1:9 (TEACHER_URLS)": (
        SEARCH, {"TEACHER_URLS": "http://127.0.0.1:9/generate"},
    ),
    "SPADER_CONFIG: no teacher in ": (SEARCH, {"SPADER_CONFIG": "plain.yaml"}),
    "make it with: spader-slime data convert --protocol search_r1": (
        SEARCH, {"TRAIN_DATA": "none.parquet"},
    ),
    "ITERATIONS is 'all'": (SEARCH, {"ITERATIONS": "all"}),
    "run 2-sft-tau.sh, or set REF_LOAD": (SEARCH, {"REF_LOAD": "elsewhere"}),
    "run 1-sft-math-search.sh, or set REF_LOAD": (TAU, {"REF_LOAD": "elsewhere"}),
    "make it: spader-slime import --hf": (MATH, {"REF_LOAD": "elsewhere"}),
    "make it with: spader-slime data sft": (MATH, {"TRAIN_DATA": "none.parquet"}),
    "SFT_ROLLOUT is 'mine'; expected one of: spader slime": (MATH, {"SFT_ROLLOUT": "mine"}),
    "SLIME_DIR is not set": (MATH, {"SLIME_DIR": ""}),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_one_line_and_nothing_started(machine: Machine, message: str) -> None:
    machine.write("plain.yaml", "spader: {}\n")
    script, variables = WRONG[message]
    stage = {} if script == MATH else {"REF_LOAD": str(machine.folder / "stage")}
    done = machine.run(script=script, **(TEACHER | stage | variables))
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert machine.notes("ray") == machine.notes("spader-slime") == []


def test_a_stage_from_its_check_to_the_end(machine: Machine) -> None:
    done = machine.run(script=MATH, ROLE="attach")
    assert done.returncode == 0, done.stderr
    assert machine.notes("spader-slime")[0][1:3] == ["data", "sft-check"]
    assert len(machine.notes("ray", "job", "submit")) == 1
    refused = machine.run(script=MATH, ROLE="attach", DOCTOR_CODE="1")
    assert refused.returncode == 1 and len(machine.notes("ray", "job", "submit")) == 1
