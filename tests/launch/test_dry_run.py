"""What the run scripts would do: commands, flags, quoting."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from launch.machine import QWEN, ROOT, SCRIPTS, Machine, flag

from spader_slime.config import load_spader


def test_commands_in_order_and_nothing_started(machine: Machine) -> None:
    doctor, ray, job, follow = machine.commands()
    assert doctor[:3] == ["spader-slime", "doctor", "--config"]
    assert doctor[4:6] == ["--slime-args", str(machine.folder / "slime/train.py")]
    assert ray[:2] == ["ray", "start"] and "--head" in ray and flag(ray, "--num-gpus") == "8"
    assert job[:3] == ["ray", "job", "submit"]
    assert job[job.index("--") + 2 :] == doctor[5:]
    assert follow[:3] == ["ray", "job", "logs"] and follow[-1] == flag(job, "--submission-id")
    assert machine.notes("ray") == machine.notes("spader-slime") == []
    assert not (machine.folder / "run").exists()


def test_bash_reads_the_printed_words_back(machine: Machine) -> None:
    done = machine.run("--wandb-group", "", 'a"b`c\\', DRY_RUN="1")
    for line in done.stdout.splitlines():
        read = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True)
        assert read.stdout.decode().split("\0")[:-1] == shlex.split(line)
    assert shlex.split(done.stdout.splitlines()[-2])[-3:] == ["--wandb-group", "", 'a"b`c\\']


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_hook_is_named_in_every_script(machine: Machine, script: str) -> None:
    job = machine.job(script=script)
    hooks = {word.split(".")[-1] for word in job if word.startswith("spader_slime.hooks.")}
    assert hooks == {
        "generate_rollout", "generate", "reward", "post_process_rewards", "compute_advantages",
    }  # fmt: skip
    assert "--group-rm" in job
    assert "--loss-type" not in job  # slime's own policy loss
    assert load_spader(flag(job, "--custom-config-path")).rollout == "sync"


@pytest.mark.parametrize(
    ("mode", "nodes", "variables", "expected"),
    [
        ("colocate", "1", {}, "1 8 --colocate"),
        ("colocate", "4", {}, "4 8 --colocate"),
        ("disaggregate", "1", {}, "1 4 --rollout-num-gpus 4"),
        ("disaggregate", "1", {"ROLLOUT_GPUS": "6"}, "1 2 --rollout-num-gpus 6"),
        ("disaggregate", "3", {}, "2 8 --rollout-num-gpus 8"),
        ("async", "1", {"GPUS_PER_NODE": "4"}, "1 2 --rollout-num-gpus 2"),
        ("async", "4", {"ROLLOUT_GPUS": "24"}, "1 8 --rollout-num-gpus 24"),
    ],
)
def test_which_gpus_train_and_sample(
    machine: Machine, mode: str, nodes: str, variables: dict[str, str], expected: str
) -> None:
    job = machine.job(MODE=mode, NODES=nodes, MASTER_ADDR="10.0.0.1", **variables)
    driver = job.index("--") + 2
    assert Path(job[driver]).name == ("train_async.py" if mode == "async" else "train.py")
    train, per_node, *place = expected.split()
    assert flag(job, "--actor-num-nodes") == train
    assert flag(job, "--actor-num-gpus-per-node") == per_node
    assert job[job.index(place[0]) :][: len(place)] == place


def test_mode_and_search_urls_reach_the_yaml_file(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = "http://a:8000/retrieve http://b:8000/retrieve"
    job = machine.job(MODE="async", SEARCH_URLS=urls)
    variables = json.loads(flag(job, "--runtime-env-json") or "")["env_vars"]
    assert variables["PYTHONPATH"].split(":")[1:] == [str(machine.folder / "slime"), str(ROOT)]
    assert variables["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
    for name in ("SPADER_ROLLOUT", "SPADER_SEARCH_URLS"):
        monkeypatch.setenv(name, variables[name])
    config = load_spader(flag(job, "--custom-config-path"))
    assert config.rollout == "fully_async"
    assert config.search.urls == urls.split()


@pytest.mark.parametrize(
    ("loss", "custom", "per_token"),
    [("ratio: step", True, True), ("aggregate: step", True, False), ("ratio: token", False, True)],
)
def test_step_options_bring_our_loss(
    machine: Machine, loss: str, custom: bool, per_token: bool
) -> None:
    config = machine.write("a b.yaml", f"spader: {{loss: {{{loss}}}}}\n")
    job = machine.job(SPADER_CONFIG=str(config))
    expected = "spader_slime.hooks.policy_loss" if custom else None
    assert flag(job, "--custom-loss-function-path") == expected
    assert ("--calculate-per-token-loss" in job) is per_token


def test_variables_and_further_arguments(machine: Machine) -> None:
    job = machine.job(
        "--lr", "3e-6", PROMPTS="8", SAMPLES="4", TP="1", CP="2", EVAL_DATA="", DUMP="1",
        PARTIAL_ROLLOUT="1", DYNAMIC_FILTER="1", OVER_SAMPLING="16", WANDB_PROJECT="w",
    )  # fmt: skip
    assert flag(job, "--lr") == "3e-6"
    assert flag(job, "--global-batch-size") == "32"
    assert flag(job, "--context-parallel-size") == "2"
    assert flag(job, "--save-debug-rollout-data") == str(
        machine.folder / "run/dumps/{rollout_id}.pt"
    )
    assert flag(job, "--over-sampling-batch-size") == "16"
    variables = json.loads(flag(job, "--runtime-env-json") or "")["env_vars"]
    assert variables["TENSORBOARD_DIR"] == str(machine.folder / "run/tensorboard")
    assert {
        "--partial-rollout",
        "--use-tensorboard",
        "--use-wandb",
        "--dynamic-sampling-filter-path",
    } <= set(job)
    assert not {"--eval-interval", "--eval-prompt-data", "--sequence-parallel"} & set(job)


def test_relative_paths_become_absolute(machine: Machine) -> None:
    job = machine.job(MODELS_DIR="models", TRAIN_DATA="data/x.jsonl@[0:9]", SLIME_DIR="slime")
    assert flag(job, "--hf-checkpoint") == str(machine.folder / "models/Qwen3-8B")
    assert flag(job, "--prompt-data") == str(machine.folder / "data/x.jsonl@[0:9]")
    assert str(machine.folder / "slime/train.py") in job


def test_a_worker_only_joins(machine: Machine) -> None:
    (ray,) = machine.commands(NODES="2", NODE_RANK="1", MASTER_ADDR="10.0.0.1")
    assert ray[:2] == ["ray", "start"] and flag(ray, "--address") == "10.0.0.1:6379"


def test_attach_starts_no_ray(machine: Machine) -> None:
    job, _ = machine.commands(ROLE="attach", SKIP_DOCTOR="1", JOB_ADDRESS="http://10.0.0.9:8265")
    assert job[:3] == ["ray", "job", "submit"]
    assert flag(job, "--address") == "http://10.0.0.9:8265"


def test_mixture_of_experts(machine: Machine) -> None:
    script = "run-qwen3-30b-a3b-spader.sh"
    plain = machine.job(script=script)
    other = machine.job(script=script, ROUTING_REPLAY="1", CPU_OFFLOAD="0", MODE="async")
    assert "--optimizer-cpu-offload" in plain and "--optimizer-cpu-offload" not in other
    assert "--use-rollout-routing-replay" in other
    assert flag(plain, "--expert-model-parallel-size") == "8"
    assert flag(other, "--expert-model-parallel-size") == "4"  # half of a node trains


def test_grpo_differs_from_spader_only_in_names_and_the_yaml_file(machine: Machine) -> None:
    spader, grpo = (
        machine.job(script=script, RUN_DIR="unset") for script in (QWEN, "run-qwen3-8b-grpo.sh")
    )
    differing = {spader[i - 1] for i, word in enumerate(spader) if word != grpo[i]}
    assert differing == {
        "--submission-id", "--runtime-env-json", "--load", "--save", "--custom-config-path",
        "--tb-project-name",
    }  # fmt: skip


def test_a_dry_run_remarks_on_what_is_missing(machine: Machine) -> None:
    os.remove(machine.folder / "data/qampari/dev.parquet")
    done = machine.run(DRY_RUN="1")
    assert done.returncode == 0
    assert done.stderr == f"== not here: {machine.folder}/data/qampari/dev.parquet (EVAL_DATA)\n"
