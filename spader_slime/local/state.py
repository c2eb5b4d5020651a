"""What the hooks may ask of the embedded host while it runs (`args.spader_state`)."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from spader_slime.local.sample import Sample
from spader_slime.local.seam import DynamicFilterOutput

_SEED_STRIDE = 1_000_003  # prime: the seeds of neighbouring runs don't overlap


class HostState:
    """Stands where slime's GenerateState stands.

    Attributes:
        tokenizer: Hugging Face tokenizer of the policy.
        sampling_params: the parameters of training, as slime sends them.
        semaphore: trajectories in flight.
        aborted: the rollout has all it needs, running trajectories must stop.
        generate_rollout: the host's rollout function, `(args, rollout_id, source, evaluation)`.
    """

    filter_output = DynamicFilterOutput

    def __init__(
        self, args: Namespace, tokenizer: Any, generate_rollout: Callable[..., Any]
    ) -> None:
        self.tokenizer, self.generate_rollout = tokenizer, generate_rollout
        self.sampling_params = sampling_params(args)
        self.semaphore = asyncio.Semaphore(args.sglang_server_concurrency)
        self.aborted = False


def sampling_params(args: Namespace) -> dict[str, Any]:
    """Sampling parameters of training, with the names that SGLang and slime give them."""
    return {
        "temperature": args.rollout_temperature,
        "top_p": args.rollout_top_p,
        "top_k": args.rollout_top_k,
        "max_new_tokens": args.rollout_max_response_len,
        "stop": args.rollout_stop,
        "stop_token_ids": args.rollout_stop_token_ids,
        "skip_special_tokens": args.rollout_skip_special_tokens,
        "no_stop_trim": True,
        "spaces_between_special_tokens": False,
    }


def seeded(args: Namespace, sample: Sample, params: dict[str, Any]) -> dict[str, Any]:
    """A copy of `params` with a seed of this sample's own: a rerun samples the same tokens."""
    return {**params, "sampling_seed": sampling_seed(args.rollout_seed, sample.index or 0)}


def sampling_seed(seed: int, index: int) -> int:
    """The engine's seed for trajectory `index` of a run or an evaluation with this `seed`."""
    return (seed * _SEED_STRIDE + index) % 2**31
