"""Replay arrays of samples that are left out of the loss.

With top-p below 1 slime replays the sampling nucleus in training, and for mixtures of experts the
routing. It wants these arrays of every sample, also of one whose trajectory broke off.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import torch


def complete_replay(args: Namespace, sample: Any) -> None:
    """Lengthen the replay arrays that `args` ask for to the sample's own length."""
    if getattr(args, "rollout_top_p", 1.0) != 1.0:
        _complete_top_p(sample)
    if getattr(args, "use_rollout_routing_replay", False):
        _complete_routing(sample, args.num_layers, args.moe_router_topk)


def _complete_top_p(sample: Any) -> None:
    """Empty nuclei for the tokens that have none."""
    if sample.rollout_top_p_token_offsets is None:
        sample.rollout_top_p_token_ids, sample.rollout_top_p_token_offsets = [], [0]
    offsets = torch.as_tensor(sample.rollout_top_p_token_offsets, dtype=torch.int32)
    missing = sample.response_length + 1 - len(offsets)
    sample.rollout_top_p_token_ids = torch.as_tensor(
        sample.rollout_top_p_token_ids, dtype=torch.int32
    )
    sample.rollout_top_p_token_offsets = torch.cat([offsets, offsets[-1:].repeat(missing)])


def _complete_routing(sample: Any, num_layers: int, top_k: int) -> None:
    """The first experts, whichever they are, for the tokens that have none."""
    known = sample.rollout_routed_experts
    known = torch.empty(0, num_layers, top_k, dtype=torch.int32) if known is None else known
    missing = len(sample.tokens) - 1 - len(known)
    first = torch.arange(top_k, dtype=torch.int32).expand(missing, num_layers, top_k)
    sample.rollout_routed_experts = torch.cat([torch.as_tensor(known, dtype=torch.int32), first])
