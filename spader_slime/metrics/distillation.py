"""What a teacher said of a rollout, and the limit on lost answers. Entropies and KL in nats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from spader_slime.algorithms.teacher_scores import Lesson
from spader_slime.errors import TEACHER_ERROR_KINDS, TooManyFailuresError
from spader_slime.metrics.common import Graded, Metrics, mean

Floats = NDArray[np.float64]
QUANTILES = (50, 80, 95)  # of the teacher's entropy: what thresholds would gate


def distillation(trained: Sequence[Graded]) -> Metrics:
    """Distance to the teacher over the sampled tokens of trajectories that are trained on.

    Student entropies are estimates, minus the mean log-prob of what it sampled. Empty without a
    teacher.
    """
    asked = [one for one in trained if one.lesson is not None]
    lessons = [one.lesson for one in asked if one.lesson is not None]
    if not lessons:
        return {}
    faults = Counter(lesson.fault for lesson in lessons if lesson.fault)
    p50, p99 = np.percentile([lesson.seconds for lesson in lessons], (50, 99))
    found = {
        "distill/scored": len(lessons),
        "distill/lost_share": sum(faults.values()) / len(lessons),
        **{f"distill/lost/{kind}": faults[kind] for kind in TEACHER_ERROR_KINDS},
        "distill/latency_p50": float(p50),
        "distill/latency_p99": float(p99),
    }
    tables = [_columns(one, lesson) for one, lesson in zip(asked, lessons, strict=True)]
    table = np.concatenate(tables)
    return found | (_tokens(table) if len(table) else {})


def _columns(one: Graded, lesson: Lesson) -> Floats:
    """Of each judged token: decision step from 1, student log-prob, teacher's, entropy, mass."""
    scores, count = lesson.scores, len(one.episode.log_probs)
    step = np.zeros(count)
    for number, (start, end) in enumerate(one.episode.step_spans, start=1):
        step[start:end] = number
    mass = scores.log_probs_TK.exp().sum(1).numpy()
    said = (scores.log_probs_T.numpy(), scores.entropy_T.numpy(), mass)
    table = np.stack([step, np.array(one.episode.log_probs), *said], axis=1, dtype=np.float64)
    return table[(scores.weight_T.numpy() > 0) & (step > 0)]


def _tokens(table: Floats) -> Metrics:
    step, student, teacher, entropy, mass = table.T
    found: Metrics = {
        "distill/reverse_kl": mean(student - teacher),
        "distill/teacher_entropy": mean(entropy),
        "distill/student_entropy": -mean(student),
        "distill/top_k_mass": mean(mass),
    }
    quantiles = np.percentile(entropy, QUANTILES)
    found |= {f"distill/teacher_entropy_p{q}": v for q, v in zip(QUANTILES, quantiles, strict=True)}
    for number in range(1, int(step.max()) + 1):
        own = step == number
        found[f"distill/teacher_entropy/step_{number}"] = mean(entropy[own])
        found[f"distill/student_entropy/step_{number}"] = -mean(student[own])
        found[f"distill/reverse_kl/step_{number}"] = mean((student - teacher)[own])
    return found


def check_lessons(results: Mapping[str, Sequence[Sequence[Graded]]], max_share: float) -> None:
    """Stop the run when the teacher failed on too many trajectories.

    Raises:
        TooManyFailuresError: one line with the share, the limit and the kinds of faults.
    """
    graded = [one for groups in results.values() for group in groups for one in group]
    faults = [one.lesson.fault for one in graded if one.lesson is not None]
    lost = Counter(fault for fault in faults if fault)
    share = sum(lost.values()) / max(len(faults), 1)
    if share > max_share:
        kinds = ", ".join(f"{count} x {kind}" for kind, count in lost.most_common())
        raise TooManyFailuresError(
            f"the teacher failed on {sum(lost.values())} of {len(faults)} trajectories ({share:.0%}"
            f", distillation.max_lost_share is {max_share:.0%}): {kinds}"
        )
