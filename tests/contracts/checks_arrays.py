"""What our hooks leave in slime's samples, and what slime makes of it."""

from __future__ import annotations

from importlib import import_module
from typing import Any
from unittest import mock

import torch
from contracts.on_stage import GROUPS, playing
from contracts.real_slime import Manager
from support.drill import Faults

from spader_slime import hooks, record
from spader_slime.algorithms.zigzag import slice_response
from spader_slime.local.sample import Sample


def slices() -> None:
    """Context-parallel slices are slime's, for every rank and many lengths."""
    mpu: Any = import_module("megatron.core").mpu
    theirs = import_module("slime.backends.megatron_utils.cp_utils").slice_log_prob_with_cp
    size, rank = "get_context_parallel_world_size", "get_context_parallel_rank"
    for ranks in (1, 2, 3, 4):
        for place in range(ranks):
            with mock.patch.multiple(mpu, **{size: lambda: ranks, rank: lambda: place}):  # noqa: B023
                _same_slices(theirs, place, ranks)


def _same_slices(theirs: Any, rank: int, size: int) -> None:
    for total in range(2, 40):
        for response in range(1, total):
            values = torch.arange(response)
            ours = slice_response(values, total, response, rank, size)
            assert torch.equal(ours, theirs(values, total, response))


def sample_stand_in() -> None:
    """The embedded host's Sample goes through the same turns and dumps as slime's."""
    slime_sample: Any = import_module("slime.utils.types").Sample
    made = []
    for kind in (Sample, slime_sample):
        sample = kind(index=3, prompt="q", label=[["a"]], tokens=[1, 2])
        meta = {"finish_reason": {"type": "stop"}, "prompt_tokens": 2, "weight_version": "1"}
        sample.append_response_tokens(
            None, tokens=[5, 6], log_probs=[-1.0, -2.0], meta_info=meta, text="ab"
        )
        sample.append_response_tokens(None, tokens=[7], trainable=False, text="c")
        sample.append_response_tokens(None, tokens=[8], log_probs=[-0.5], meta_info=meta)
        made.append(sample.to_dict())
    assert made[0] == made[1], made
    assert Sample.from_dict(made[1]).to_dict() == slime_sample.from_dict(made[0]).to_dict()


def nuclei_and_routing(call: Any) -> dict[str, Any]:
    """Two ids in the nucleus of every sampled token; routing of every token but the last."""
    sampled, tokens = len(call.output_ids), call.input_ids + call.output_ids
    return {
        "top_p_token_ids": [i for token in call.output_ids for i in (token, token + 1)],
        "top_p_token_offsets": list(range(0, 2 * sampled + 1, 2)),
        "routed_experts": [e for token in tokens[:-1] for e in (token, 1, token, 2)],
    }


def replay() -> None:
    """Top-p nuclei and expert routing stay in line with the tokens, whatever breaks off."""
    faults = Faults()
    asked = {"rollout_top_p": 0.9, "use_rollout_routing_replay": True}
    shape = {"num_layers": 2, "moe_router_topk": 2, "moe_layer_freq": [1, 1]}
    with playing(faults, rollout_batch_size=GROUPS, **asked, **shape) as (stage, args, source):
        stage.engine.more = nuclei_and_routing
        faults.attach(stage.engine)
        for number in range(5):
            output = hooks.generate_rollout(args, number, source, evaluation=False)
            samples = [sample for group in output.samples for sample in group]
            for sample in samples:
                check_replay(sample)
            data = Manager(args, hooks.post_process_rewards).convert(samples)
            assert len(data["rollout_routed_experts"]) == len(samples)
            assert len(data["rollout_top_p_token_offsets"]) == len(samples)


def check_replay(sample: Any) -> None:
    ids = torch.as_tensor(sample.rollout_top_p_token_ids).tolist()
    offsets = torch.as_tensor(sample.rollout_top_p_token_offsets).tolist()
    routing = torch.as_tensor(sample.rollout_routed_experts)
    assert len(offsets) == sample.response_length + 1 and offsets[-1] == len(ids)
    assert routing.shape == (len(sample.tokens) - 1, 2, 2)
    sampled = record.episode_of(sample).loss_mask or [0]
    response = sample.tokens[-sample.response_length :]
    for place, (token, own) in enumerate(zip(response, sampled, strict=True)):
        assert ids[offsets[place] : offsets[place + 1]] == ([token, token + 1] if own else [])
    if not sample.remove_sample:
        assert routing[:, 0, 0].tolist() == sample.tokens[:-1]
