"""slime's samples of `step_loss` with a teacher's scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from contracts.checks_loss_ranks import make_samples
from support.step_loss import Data
from support.taught_data import NOT_ASKED, source_scores


def taught_samples(data: Data) -> list[Any]:
    """slime's samples as the generate hook leaves them: nothing is gated yet."""
    samples = make_samples(data)
    for i, (sample, said) in enumerate(zip(samples, source_scores(data, 0.0), strict=True)):
        shut = replace(said, gate_T=torch.zeros_like(said.gate_T))
        sample.teacher_log_probs = None if i == NOT_ASKED else shut.pack()
    return samples
