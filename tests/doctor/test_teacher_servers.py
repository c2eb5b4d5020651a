"""The teacher of a distillation: its servers, and the flags that go with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from doctor.judging import problems, said
from doctor.setups import Setup
from support.teacher import ScriptedTeacher
from support.templates import chat_tokenizer

from spader_slime.doctor import Severity, examine
from spader_slime.doctor.facts import Reading
from spader_slime.doctor.teacher_probing import probe_teachers

OURS = {
    "loss-type": ["custom_loss"],
    "custom-loss-function-path": ["spader_slime.hooks.policy_loss"],
}


@pytest.fixture(scope="module")
def teacher() -> Iterator[ScriptedTeacher]:
    with ScriptedTeacher(chat_tokenizer("qwen3")) as server:
        yield server


@pytest.fixture
def taught(qwen: Setup, teacher: ScriptedTeacher) -> Setup:
    """A run with a teacher; nothing is wrong with it."""
    qwen.flags |= OURS
    teach(qwen, urls=[teacher.url])
    return qwen


def teach(setup: Setup, **options: Any) -> None:
    setup.spader["distillation"] = setup.spader.get("distillation", {}) | options


def test_a_sound_teacher(taught: Setup, teacher: ScriptedTeacher) -> None:
    found = examine(*taught.write())
    assert [f for f in found if f.severity is not Severity.OK] == [], said(found)
    (line,) = [f for f in found if f.theme == "teacher"]
    assert line.what == teacher.url and "vocabulary" in line.value
    assert teacher.asked[-1]["top_logprobs_num"] == 16  # as in training


def test_without_a_teacher_nothing_is_said(qwen: Setup) -> None:
    assert [f for f in examine(*qwen.write()) if f.theme == "teacher"] == []


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("status", "status"), ("garbage", "malformed"), ("short", "length"), ("null", "not_finite")],
)
def test_scores_that_can_not_be_used(taught: Setup, fault: str, kind: str) -> None:
    with ScriptedTeacher(chat_tokenizer("qwen3"), lambda ids: fault) as server:
        teach(taught, urls=[*taught.spader["distillation"]["urls"], server.url])
        (found,) = problems(taught)
    assert (found.theme, found.severity, found.what) == ("teacher", Severity.ERROR, server.url)
    assert found.value.startswith(f"{kind}: ") and found.advice


@pytest.mark.parametrize(
    ("url", "words"), [("http://127.0.0.1:9", "serve-teacher.sh"), ("10.0.0.2:13141", "http://")]
)
def test_a_server_that_is_not_there(taught: Setup, url: str, words: str) -> None:
    teach(taught, urls=[url])
    (found,) = problems(taught)
    assert (found.theme, found.severity, found.what) == ("teacher", Severity.ERROR, url)
    assert words in found.advice


def test_another_vocabulary(taught: Setup) -> None:
    with ScriptedTeacher(chat_tokenizer("llama31")) as server:
        teach(taught, urls=[server.url])
        (found,) = problems(taught)
    assert (found.theme, found.what) == ("teacher", server.url)
    assert found.value.startswith("vocabulary: ") and "student's tokenizer" in found.advice


def test_a_loopback_address_is_doubtful_on_several_nodes(
    taught: Setup, teacher: ScriptedTeacher
) -> None:
    taught.flags["actor-num-nodes"] = ["2"]
    assert ("teacher", teacher.url, "this machine only") in [
        (f.theme, f.what, f.value) for f in problems(taught)
    ]


def test_no_tokenizer_no_comparison(teacher: ScriptedTeacher, taught: Setup) -> None:
    taught.flags["hf-checkpoint"] = ["Qwen/Qwen3-8B"]
    (found,) = [f for f in problems(taught) if f.theme == "teacher"]
    assert found.severity is Severity.WARNING and "no folder here" in found.value
    config = Reading(missing="spoilt")
    assert probe_teachers(_distillation(teacher.url), config).value is None


def _distillation(url: str) -> Any:
    from spader_slime.config import load_spader

    return load_spader({"distillation": {"urls": [url]}}).distillation


FLAGS: dict[str, tuple[dict[str, list[str]], dict[str, Any], str, str]] = {
    "forward KL without our loss": ({"loss-type": []}, {}, "--loss-type", "hooks.policy_loss"),
    "subtracted twice": ({"use-opd": [], "opd-type": ["sglang"]}, {}, "--use-opd", "False"),
    "subtracted by nobody": ({}, {"reverse": "opd"}, "--use-opd", "True (reverse: opd)"),
    "slime's other teacher": (
        {"use-opd": [], "opd-type": ["megatron"]}, {"reverse": "opd"}, "--opd-type", "sglang",
    ),
    "context by gathering": ({"allgather-cp": []}, {}, "--allgather-cp", "False"),
    "a nucleus and a rest": (
        {"rollout-top-p": ["0.9"]}, {"tail": "keep"}, "--rollout-top-p", "1.0 (tail: keep)",
    ),
    "a loss of one's own": (
        {"custom-loss-function-path": ["mine.loss"]}, {}, "--custom-loss-function-path",
        "hooks.policy_loss",
    ),
    "no reward and no teacher": (
        {}, {"urls": [], "task_reward": False}, "spader.distillation.task_reward", "True",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAGS)
def test_flags_that_do_not_go_with_a_teacher(taught: Setup, name: str) -> None:
    flags, options, what, words = FLAGS[name]
    taught.flags |= flags
    if flags.get("loss-type") == []:
        del taught.flags["loss-type"], taught.flags["custom-loss-function-path"]
    teach(taught, **options)
    found = [f for f in problems(taught) if f.theme == "loss"]
    assert [f.what for f in found if words in f.advice] == [what], said(found)


def test_one_sample_per_prompt_is_enough_for_distillation_alone(taught: Setup) -> None:
    taught.flags["n-samples-per-prompt"] = ["1"]
    taught.flags["global-batch-size"] = ["16"]
    assert [f.what for f in problems(taught)] == ["--n-samples-per-prompt"]
    teach(taught, task_reward=False)
    assert problems(taught) == []
