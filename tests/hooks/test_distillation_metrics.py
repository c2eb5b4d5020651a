"""What is logged of a teacher, against slow loops, and the limit on its lost answers."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.episodes import episode, graded
from support.lessons import taught

from spader_slime.algorithms.teacher_scores import Lesson, no_scores
from spader_slime.episode import End
from spader_slime.errors import TEACHER_ERROR_KINDS, TooManyFailuresError
from spader_slime.metrics import Graded, check_lessons, rollout_metrics

TOP_K, VOCAB = 4, 23


def peers(seed: int, faults: list[str | None], masked: bool) -> list[Graded]:
    """Trajectories of one to three decision steps, one that was lost before the teacher came."""
    source, found = torch.Generator().manual_seed(seed), []
    for number, fault in enumerate(faults):
        one = episode(*[["Oslo"]] * (number % 3), answer=["Oslo"])
        length = len(one.response_ids)
        one.response_ids = torch.randint(VOCAB, (length,), generator=source).tolist()
        one.log_probs = (-3 * torch.rand(length, generator=source)).tolist()
        mask = [on * (1 - masked * (t == 0)) for t, on in enumerate(one.loss_mask)]
        scores = taught(one.response_ids, mask, VOCAB, TOP_K, seed + number)
        lesson = Lesson(no_scores(length, TOP_K) if fault else scores, fault, 0.5 + number)
        found.append(replace(graded(one)[0], lesson=lesson))
    return [*found, *graded(episode(end=End.INFRASTRUCTURE), episode(end=End.ABORTED))]


def quantile(values: list[float], share: float) -> float:
    """Linear between the two neighbours."""
    ordered, place = sorted(values), share * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def expected(found: list[Graded]) -> dict[str, float]:
    """Token by token."""
    asked = [(one, one.lesson) for one in found if one.lesson is not None]
    waits = [lesson.seconds for _, lesson in asked]
    values: dict[str, list[float]] = defaultdict(list)
    for one, lesson in asked:
        for number, (start, end) in enumerate(one.episode.step_spans, start=1):
            for t in range(start, end):
                if not lesson.scores.weight_T[t]:
                    continue
                student, teacher = one.episode.log_probs[t], float(lesson.scores.log_probs_T[t])
                entropy = float(lesson.scores.entropy_T[t])
                top = [math.exp(p) for p in lesson.scores.log_probs_TK[t].tolist()]
                values["top_k_mass"].append(sum(top))
                for end_of_name in ("", f"/step_{number}"):
                    values[f"reverse_kl{end_of_name}"].append(student - teacher)
                    values[f"teacher_entropy{end_of_name}"].append(entropy)
                    values[f"student_entropy{end_of_name}"].append(-student)
    lost = [lesson.fault for _, lesson in asked if lesson.fault]
    numbers = {name: sum(all_of) / len(all_of) for name, all_of in values.items()}
    for q in (50, 80, 95) if values else ():
        numbers[f"teacher_entropy_p{q}"] = quantile(values["teacher_entropy"], q / 100)
    numbers |= {f"lost/{kind}": lost.count(kind) for kind in TEACHER_ERROR_KINDS}
    numbers |= {"scored": len(asked), "lost_share": len(lost) / len(asked)}
    numbers |= {f"latency_p{q}": quantile(waits, q / 100) for q in (50, 99)}
    return {f"spader/distill/{name}": value for name, value in numbers.items()}


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 999),
    st.lists(st.none() | st.sampled_from(TEACHER_ERROR_KINDS), min_size=1, max_size=7),
    st.booleans(),
)
def test_numbers(seed: int, faults: list[str | None], masked: bool) -> None:
    found = peers(seed, faults, masked)
    numbers = {k: v for k, v in rollout_metrics([found]).items() if "distill" in k}
    assert numbers == pytest.approx(expected(found), rel=1e-5, abs=1e-6)


def test_without_a_teacher_there_are_no_such_numbers() -> None:
    assert not [
        name for name in rollout_metrics([graded(episode(answer=["Oslo"]))]) if "distill" in name
    ]


def test_the_limit_names_share_and_kinds_in_one_line() -> None:
    found = peers(1, ["timeout", None, "status", "timeout"], False)
    results: dict[str, Any] = {"": [found]}
    check_lessons(results, 0.75)
    with pytest.raises(TooManyFailuresError) as caught:
        check_lessons(results, 0.74)
    assert str(caught.value) == (
        "the teacher failed on 3 of 4 trajectories (75%, distillation.max_lost_share is 74%): "
        "2 x timeout, 1 x status"
    )


def test_nobody_asked_is_no_failure() -> None:
    check_lessons({"": [graded(episode(answer=["Oslo"]))], "eval/dev/": []}, 0.0)
