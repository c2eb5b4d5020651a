"""A rollout outlives every fault of a teacher: nothing is misaligned, and the counts add up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support.drill import Continuing, Faults
from support.drill_checks import check_samples, check_train_data
from support.engine import ScriptedEngine
from support.hosts import TOWNS, TownScript, make_host, write_prompts
from support.lessons import TEACHER as NOWHERE
from support.search import ScriptedSearch
from support.teacher import FAULTS, ScriptedTeacher
from support.teacher_drill import TOP_K, WORDS, Dice, Talkative, check_taught, note
from support.tokenizers import byte_tokenizer

from spader_slime import hooks
from spader_slime.algorithms.teacher_scores import unpack
from spader_slime.errors import TEACHER_ERROR_KINDS, TeacherError, TooManyFailuresError
from spader_slime.local.arguments import trainer_args
from spader_slime.local.host import Rollout, RolloutHost
from spader_slime.local.seam import EvalDataset

GROUPS, PEERS = 8, 3
ROLLOUTS, MOST = 4, 16


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    return write_prompts(tmp_path / "prompts.jsonl", 5)


@pytest.fixture
def search() -> Iterator[ScriptedSearch]:
    with ScriptedSearch(TOWNS.__getitem__) as running:
        yield running


def taught_host(
    engine: ScriptedEngine, search: ScriptedSearch, teacher: str, prompts: str, **options: Any
) -> RolloutHost:
    """A host with a teacher that is asked once."""
    fixed = {"rollout_batch_size": GROUPS, "n_samples_per_prompt": PEERS, "partial_rollout": True}
    fixed |= {"mask_offpolicy_in_partial_rollout": True, "router_policy": "consistent_hashing"}
    host = make_host(engine, search.endpoint, prompts, max_share=1.0, **fixed)
    distillation = {"urls": [teacher], "top_k": TOP_K, "retries": 0, "timeout_s": 3.0}
    host.args.spader["distillation"] = distillation | options
    return host


def test_every_fault_between_aborts_and_broken_searches(prompts: str) -> None:
    faults, dice, script = Faults(), Dice(), Talkative()
    with (
        ScriptedEngine(WORDS, Continuing(script, script.said)) as engine,
        ScriptedSearch(TOWNS.__getitem__, faults.search) as search,
        ScriptedTeacher(WORDS, dice) as teacher,
        taught_host(engine, search, teacher.url, prompts, max_lost_share=1.0) as host,
    ):
        host.args.over_sampling_batch_size = 2 * GROUPS
        faults.attach(engine)
        teacher.entropy, done = True, []
        for number in range(MOST):  # a fault may fall to groups that were asked for in excess
            engine.weight_version = str(number)
            done.append(host.rollout(number))
            if number >= ROLLOUTS - 1 and kinds_of(done) == {None, *TEACHER_ERROR_KINDS}:
                break
        check_samples([rollout.samples for rollout in done], engine, mask=True)
        asked = len(teacher.asked)
        host.args.eval_datasets = [EvalDataset("dev", prompts)]
        numbers = host.evaluate(len(done)).metrics or {}
        assert len(teacher.asked) == asked and not [n for n in numbers if "distill" in n]
    for rollout in done:
        check_taught(rollout.samples, rollout.metrics, dice)
        check_trainer(rollout, host)
    assert set(dice.met.values()) == {"", *FAULTS}
    assert kinds_of(done) == {None, *TEACHER_ERROR_KINDS}


def kinds_of(rollouts: list[Rollout]) -> set[str | None]:
    """What befell the teacher's replies on samples that were kept; None: nothing."""
    return {note(s)["fault"] for rollout in rollouts for s in rollout.samples if note(s)}


def check_trainer(rollout: Rollout, host: RolloutHost) -> None:
    """The advantage hook takes it all."""
    (shard,) = rollout.train_data
    check_train_data(rollout.samples, shard)
    data = dict(shard)
    hooks.compute_advantages(trainer_args(host.args), data)
    for key in ("advantages", "teacher_log_probs"):
        assert [len(values) for values in data[key]] == data["response_lengths"]
        assert all(values.isfinite().all() for values in data[key])


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(WORDS, TownScript()) as running:
        yield running


def test_a_restart_in_the_middle(
    engine: ScriptedEngine, search: ScriptedSearch, prompts: str
) -> None:
    """While the teacher is away its answers are lost and counted, up to the limit."""
    with (
        ScriptedTeacher(WORDS) as teacher,
        taught_host(engine, search, teacher.url, prompts, max_lost_share=1.0) as host,
    ):
        teacher.entropy, shares = True, []
        for number, gone in enumerate((False, True, False)):
            teacher.gone = gone
            rollout = host.rollout(number)
            shares.append(rollout.metrics["spader/distill/lost/connection"])
            check_trainer(rollout, host)
            gates = [unpack(torch.as_tensor(s.teacher_log_probs)).gate_T for s in rollout.samples]
            assert any(gate.any() for gate in gates) is not gone
    assert shares == [0, GROUPS * PEERS, 0]


def test_a_teacher_that_stays_away_ends_the_run_in_one_line(
    engine: ScriptedEngine, search: ScriptedSearch, prompts: str
) -> None:
    with (
        ScriptedTeacher(WORDS) as teacher,
        taught_host(engine, search, teacher.url, prompts) as host,
    ):
        host.rollout(0)
        teacher.gone = True
        with pytest.raises(TooManyFailuresError) as caught:
            host.rollout(1)
    line = str(caught.value)
    assert line.startswith("the teacher failed on 24 of 24 trajectories (100%, ")
    assert line.endswith("24 x connection") and "\n" not in line


@pytest.mark.parametrize("fault", ["down", "another vocabulary"])
def test_the_first_rollout_does_not_begin_without_a_teacher(
    engine: ScriptedEngine, search: ScriptedSearch, prompts: str, fault: str
) -> None:
    words: Any = WORDS if fault == "down" else byte_tokenizer(special=["<|a|>", "<|im_end|>"])
    before = len(engine.calls)
    with (
        ScriptedTeacher(words) as teacher,
        taught_host(engine, search, teacher.url, prompts) as host,
    ):
        teacher.gone = fault == "down"
        with pytest.raises(TeacherError, match="can't be reached" if teacher.gone else "vocab"):
            host.rollout(0)
    assert len(engine.calls) == before


def test_an_evaluation_does_without_a_teacher(
    engine: ScriptedEngine, search: ScriptedSearch, prompts: str
) -> None:
    with taught_host(engine, search, NOWHERE, prompts) as host:
        host.args.eval_datasets = [EvalDataset("dev", prompts)]
        assert (host.evaluate(0).metrics or {})["eval/dev/spader/valid"] == 1.0
