"""Each planted fault is found by its own check; taken out again, nothing is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from doctor.judging import problems, said
from doctor.setups import Setup
from support.search import ScriptedSearch

from spader_slime.doctor import Severity

Plant = Callable[[Setup], object]


@dataclass(frozen=True)
class Fault:
    """What is spoilt, and the finding it has to lead to: theme, words in `what`, in the rest."""

    plant: Plant
    theme: str
    what: str
    words: str
    severity: Severity = Severity.ERROR


def flag(name: str, *values: str) -> Plant:
    return lambda setup: setup.flags.update({name: list(values)})


def without(name: str) -> Plant:
    return lambda setup: setup.flags.pop(name)


def key(name: str, value: object) -> Plant:
    return lambda setup: setup.spader.update({name: value})


def label(value: object) -> Plant:
    return lambda setup: setup.train[17].update(label=value)


def asynchronous(setup: Setup) -> None:
    setup.spader["rollout"] = "fully_async"


def enormous(setup: Setup) -> None:
    setup.shape["vocab_size"] = 10**14
    del setup.flags["vocab-size"]


def without_template(setup: Setup) -> None:
    setup.style = None


def fewer_gpus(setup: Setup) -> None:
    setup.gpus = 4


def dead_service(setup: Setup) -> None:
    setup.urls = ["http://127.0.0.1:9/retrieve"]


WARNING = Severity.WARNING
FAULTS = {
    "misspelt setting": Fault(key("gama", 0.9), "config", "spader", "gama"),
    "other configuration": Fault(
        flag("custom-config-path", "other.yaml"), "config", "--custom-config-path", "another file"
    ),
    "misspelt flag": Fault(
        flag("n-sample-per-prompt", "8"), "flags", "--n-sample-per-prompt", "--n-samples-per-prompt"
    ),
    "empty variable": Fault(flag("save"), "flags", "--save", "no value"),
    "missing hook": Fault(
        without("custom-reward-post-process-path"),
        "hooks",
        "--custom-reward-post-process-path",
        "spader_slime.hooks.post_process_rewards",
    ),
    "rewards one by one": Fault(without("group-rm"), "hooks", "--group-rm", "peers"),
    "hook as a file": Fault(
        flag("custom-rm-path", "spader_slime/hooks.py:reward"),
        "hooks",
        "--custom-rm-path",
        "package.module.function",
    ),
    "step options without the loss": Fault(
        key("loss", {"ratio": "step"}), "loss", "--loss-type", "custom_loss"
    ),
    "asynchronous and colocated": Fault(asynchronous, "rollout", "--colocate", "GPUs of their own"),
    "group of one": Fault(
        flag("n-samples-per-prompt", "1"), "rollout", "--n-samples-per-prompt", "no advantage"
    ),
    "label that is a string": Fault(label("Oslo"), "data", "label", "row 17"),
    "empty gold": Fault(label([]), "data", "label", "1 of 40 rows"),
    "wrong column": Fault(flag("label-key", "answers"), "data", "--label-key", "prompt, label"),
    "chats without instructions": Fault(
        flag("apply-chat-template"), "data", "prompt", "<tool_call>", WARNING
    ),
    "tested on what was trained": Fault(
        lambda setup: setup.test.append(setup.train[3]), "data", "cities", "1 questions", WARNING
    ),
    "no chat template": Fault(without_template, "template", "template", "chat template"),
    "no search service": Fault(dead_service, "search", ":9/retrieve", "spader-slime search"),
    "no room for a search": Fault(
        flag("rollout-max-response-len", "700"), "budget", "token budget", "not one search"
    ),
    "longer than the engine": Fault(
        flag("rollout-max-context-len", "40000"), "budget", "--rollout-max-context-len", "32768"
    ),
    "model on the hub": Fault(
        flag("hf-checkpoint", "Qwen/Qwen3-8B"), "model", "--hf-checkpoint", "download it", WARNING
    ),
    "another model's flags": Fault(flag("num-layers", "8"), "model", "--num-layers", "says 4"),
    "tensor parallel over heads": Fault(
        flag("tensor-model-parallel-size", "8"), "parallel", "--tensor", "4 key/value heads"
    ),
    "layers over stages": Fault(
        flag("pipeline-model-parallel-size", "8"), "parallel", "--pipeline", "4 layers"
    ),
    "batch that does not divide": Fault(
        flag("global-batch-size", "96"), "batch", "--global-batch-size", "128 samples"
    ),
    "batch over ranks": Fault(
        flag("global-batch-size", "1"), "batch", "--global-batch-size", "2 data-parallel"
    ),
    "full disk": Fault(enormous, "checkpoints", "--save", "a checkpoint is about"),
    "no weights": Fault(without("ref-load"), "checkpoints", "--load", "random"),
    "fewer GPUs": Fault(fewer_gpus, "machine", "GPUs", "wants 8"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(qwen: Setup, name: str) -> None:
    fault, spoilt = FAULTS[name], qwen.copy()
    fault.plant(spoilt)
    found = problems(spoilt)
    matching = [
        f
        for f in found
        if (f.theme, f.severity) == (fault.theme, fault.severity)
        and fault.what in f.what
        and fault.words in f"{f.value} {f.advice}"
    ]
    assert matching and "please report" not in said(found), said(found)
    again = problems(qwen)
    assert again == [], said(again)


@pytest.mark.parametrize("fault", ["status", "garbage", "shape", "slow"])
def test_a_service_that_answers_badly_is_found(qwen: Setup, fault: str) -> None:
    """An error, no JSON, JSON of another protocol, no answer in time."""
    qwen.spader["search"]["timeout_s"] = 0.5 if fault == "slow" else 20.0
    kind = {"status": "status", "slow": "timeout"}.get(fault, "malformed")
    with ScriptedSearch(lambda query: [("Oslo", "A city.")], lambda number: fault) as service:
        qwen.urls = [service.endpoint]
        found = [f for f in problems(qwen) if f.theme == "search"]
    assert [(f.severity, f.what) for f in found] == [(Severity.ERROR, qwen.urls[0])], said(found)
    assert found[0].value.startswith(kind)


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ([], "no documents"),
        ([("Oslo", "A city.")] * 6, "6 documents"),
        ([("Oslo", "x" * 5000)], "5,004 characters"),
    ],
)
def test_a_service_that_ignores_the_limits_is_found(
    qwen: Setup, documents: list[tuple[str, str]], words: str
) -> None:
    with ScriptedSearch(lambda query: documents) as service:
        qwen.urls = [service.endpoint]
        found = [f for f in problems(qwen) if f.theme == "search"]
    assert [(f.severity, f.value) for f in found] == [(WARNING, words)], said(found)


def test_a_loopback_address_is_doubtful_on_several_nodes(qwen: Setup) -> None:
    qwen.flags["actor-num-nodes"] = ["2"]
    found = problems(qwen)
    assert [(f.theme, f.severity, f.value) for f in found] == [
        ("search", WARNING, "this machine only")
    ], said(found)
