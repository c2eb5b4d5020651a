"""Our hooks in slime's own loops: faults, limits, evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contracts.on_stage import GROUPS, PEERS, eval_datasets, playing
from contracts.real_slime import Manager
from support.drill import Continuing, Faults
from support.drill_checks import RAMP, check_credits, check_drill, check_samples, check_train_data
from support.teacher import FAULTS, ScriptedTeacher
from support.teacher_drill import TOP_K, WORDS, Dice, Talkative, check_taught, note

from spader_slime import hooks
from spader_slime.errors import TooManyFailuresError

ROLLOUTS = 25  # 200 groups


def drill(mode: str, mask: bool) -> None:
    """Aborts at random moments and broken searches over 200 groups of slime's own loop."""
    faults = Faults()
    many = {"rollout_batch_size": GROUPS, "over_sampling_batch_size": 2 * GROUPS}
    partial = {"partial_rollout": True, "mask_offpolicy_in_partial_rollout": mask}
    routed = {"router_policy": "consistent_hashing", "sglang_server_concurrency": 16}
    with playing(faults, mode=mode, **many, **partial, **routed) as (stage, args, source):
        faults.attach(stage.engine)
        args.spader["reward"] = RAMP
        manager = Manager(args, hooks.post_process_rewards)
        samples, metrics = [], []
        for number in range(ROLLOUTS):
            stage.engine.weight_version = str(number)
            output = hooks.generate_rollout(args, number, source, evaluation=False)
            samples.append([sample for group in output.samples for sample in group])
            metrics.append(output.metrics)
            check_train_data(samples[-1], manager.convert(samples[-1]))
            check_credits(samples[-1], [number] if mode == "sync" else range(number + 1))
        assert sum(map(len, samples)) == ROLLOUTS * GROUPS * PEERS
        check_samples(samples, stage.engine, mask)
        check_drill(samples, metrics, faults)
        assert stage.engine.aborts or mode == "fully_async"  # whose worker is never stopped


def taught(mode: str) -> None:
    """Every fault of a teacher in slime's own loop, between aborts and broken searches."""
    faults, dice, script = Faults(), Dice(), Talkative()
    many = {"rollout_batch_size": GROUPS, "over_sampling_batch_size": 2 * GROUPS}
    partial = {"partial_rollout": True, "mask_offpolicy_in_partial_rollout": True}
    teacher = ScriptedTeacher(WORDS, dice)
    with playing(faults, mode=mode, **many, **partial) as (stage, args, source), teacher:
        stage.engine.script = Continuing(script, script.said)
        faults.attach(stage.engine)
        args.spader["distillation"] = {
            "urls": [teacher.url], "top_k": TOP_K, "retries": 0, "timeout_s": 3, "max_lost_share": 1
        }  # fmt: skip
        manager, teacher.entropy = Manager(args, hooks.post_process_rewards), True
        for number in range(4):
            output = hooks.generate_rollout(args, number, source, evaluation=False)
            samples = [sample for group in output.samples for sample in group]
            check_train_data(samples, manager.convert(samples))
            check_taught(samples, output.metrics, dice)
        assert set(dice.met.values()) == {"", *FAULTS}
        args.eval_datasets = eval_datasets(stage, "dev")
        output = hooks.generate_rollout(args, 4, source, evaluation=True)
        evaluated = output.data["dev"]["samples"]
        assert not any(note(s) or s.teacher_log_probs is not None for s in evaluated)


def limit(mode: str) -> None:
    """Too many lost episodes end the run with one line, whichever loop runs."""

    class Broken(Faults):
        def search(self, number: int) -> str:
            return "status"

    with playing(Broken(), share=0.5, mode=mode) as (_, args, source):
        line = stopped_by(lambda: hooks.generate_rollout(args, 0, source, evaluation=False))
        assert line.startswith("6 of 6 episodes failed (100%") and "\n" not in line, line


def stopped_by(run: Callable[[], Any]) -> str:
    try:
        run()
    except TooManyFailuresError as error:
        return str(error)
    return "nothing stopped it"


def evaluation(mode: str) -> None:
    """Several data sets at once, with group rewards off, beside either loop."""
    with playing(mode=mode, sglang_server_concurrency=2) as (stage, args, source):
        args.eval_datasets = eval_datasets(stage, "dev", "test", peers=4)
        for number in range(3):
            hooks.generate_rollout(args, number, source, evaluation=False)
            output = hooks.generate_rollout(args, number, source, evaluation=True)
            assert [len(result["samples"]) for result in output.data.values()] == [20, 20]
            assert output.metrics["eval/dev/spader/group_size"] == 4
            assert output.metrics["eval/test/spader/valid"] == 1.0
            assert output.metrics["eval/test/spader/failed/share"] == 0.0
        assert args.group_rm
