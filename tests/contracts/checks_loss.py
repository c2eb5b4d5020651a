"""Our loss hook beside slime's own policy loss, on one process and random logits."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module
from typing import Any

import torch
from contracts.loss_flags import loss_args
from torch import Tensor

from spader_slime import hooks
from spader_slime.megatron.decision_steps import attach_steps

VOCAB = 17
FLAGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "KL": {"use_kl_loss": True, "entropy_coef": 0.02},
    "k1": {"use_kl_loss": True, "kl_loss_type": "k1"},
    "unbiased KL": {"use_kl_loss": True, "kl_loss_type": "k3", "use_unbiased_kl": True},
    "rollout log-probs": {"use_rollout_logprobs": True},
    "temperature": {"rollout_temperature": 0.7},
    "per token": {"calculate_per_token_loss": True},
    "top p": {"rollout_top_p": 0.9},
    "recomputed": {"recompute_loss_function": True},
}
ONLY_SLIMES: dict[str, dict[str, Any]] = {
    "TIS": {"use_tis": True},
    "OPSM": {"use_opsm": True, "opsm_delta": 0.01},
    "GSPO": {"advantage_estimator": "gspo"},
    "CISPO": {"advantage_estimator": "cispo"},
    "dual clip": {"eps_clip_c": 1.5},
}


def make_batch(number_T: Any) -> dict[str, Any]:
    """Three samples as slime's loss gets them; `number_T(length)` numbers the decision steps."""
    source = torch.Generator().manual_seed(3)
    shapes = [(9, 12), (30, 1), (4, 25)]  # prompt, response

    def per_token() -> list[Tensor]:
        return [torch.randn(n, generator=source) * 0.3 for _, n in shapes]

    batch: dict[str, Any] = {
        "tokens": [torch.randint(VOCAB, (p + n,), generator=source) for p, n in shapes],
        "total_lengths": [p + n for p, n in shapes],
        "response_lengths": [n for _, n in shapes],
        "loss_masks": [(torch.rand(n, generator=source) < 0.7).int() for _, n in shapes],
        "advantages": per_token(),
        "returns": per_token(),
    }
    for mask in batch["loss_masks"]:
        mask[0] = 1
    batch["rollout_mask_sums"] = [mask.sum().float() for mask in batch["loss_masks"]]
    for key in ("log_probs", "rollout_log_probs", "ref_log_probs"):
        batch[key] = [values - 2.8 for values in per_token()]
    ids = [torch.randint(VOCAB, (2 * n,), generator=source, dtype=torch.int32) for _, n in shapes]
    batch["rollout_top_p_token_ids"] = ids
    batch["rollout_top_p_token_offsets"] = [torch.arange(0, 2 * n + 1, 2) for _, n in shapes]
    numbers = [number_T(n) for _, n in shapes]
    columns = zip(batch["advantages"], numbers, strict=True)
    batch["rewards"] = [torch.stack([a, n.float()], 1) for a, n in columns]
    attach_steps(batch, 0, 1)
    batch["unconcat_tokens"] = batch["tokens"]
    return batch


def compute(args: Namespace, batch: dict[str, Any]) -> tuple[Tensor, Tensor, dict[str, float]]:
    """Loss, gradient of the logits, metrics; all through slime's `loss_function`."""
    loss_module: Any = import_module("slime.backends.megatron_utils.loss")
    source = torch.Generator().manual_seed(4)
    logits = torch.randn(1, sum(batch["total_lengths"]), VOCAB, generator=source)
    logits.requires_grad_()
    loss, _, log = loss_module.loss_function(args, batch, 2, 3, logits)
    loss.backward()
    assert logits.grad is not None
    values = log["values"][1:].tolist()
    return loss.detach(), logits.grad, dict(zip(log["keys"], values, strict=True))


def no_options() -> None:
    """Without step options: slime's values, gradients and metrics, bit by bit, with any flag."""
    batch = make_batch(torch.ones)
    for name, flags in (FLAGS | ONLY_SLIMES).items():
        theirs = compute(loss_args(loss_type="policy_loss", **flags), batch)
        ours = compute(loss_args(spader=None, **flags), batch)
        assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1], theirs[1]), name
        assert ours[2] == theirs[2], name


def one_token_steps() -> None:
    """A ratio by step is slime's where every step has one token, under every flag we allow."""
    batch = make_batch(lambda n: torch.arange(1, n + 1))
    for name, flags in FLAGS.items():
        same(name, {"ratio": "step"}, flags, batch)
    if import_module("contracts.real_slime").version() == "main":  # v0.3.1 has no dual clip
        same("dual clip", {"ratio": "step"}, {"eps_clip_c": 1.1}, batch)


def one_step_samples() -> None:
    """An aggregate by step is slime's where every sample has one decision step."""
    batch = make_batch(torch.ones)
    for name, flags in FLAGS.items():
        if name != "per token":
            same(name, {"aggregate": "step"}, flags, batch)


def same(name: str, options: dict[str, str], flags: dict[str, Any], batch: dict[str, Any]) -> None:
    theirs = compute(loss_args(loss_type="policy_loss", **flags), batch)
    ours = compute(loss_args(spader={"loss": options}, **flags), batch)
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-6, atol=1e-7, msg=name)
    torch.testing.assert_close(ours[1], theirs[1], rtol=1e-5, atol=1e-7, msg=name)
    assert list(ours[2]) == list(theirs[2]), (name, list(ours[2]), list(theirs[2]))
    for key, value in theirs[2].items():
        assert abs(ours[2][key] - value) <= 1e-6 * max(1.0, abs(value)), (name, key)


def step_options_differ() -> None:
    """With steps of several tokens they are another loss (else the checks above show nothing)."""
    batch = make_batch(lambda n: torch.arange(n) // 4 + 1)
    plain = compute(loss_args(loss_type="policy_loss"), batch)[1]
    for option in ("ratio", "aggregate"):
        ours = compute(loss_args(spader={"loss": {option: "step"}}), batch)[1]
        assert (ours - plain).norm() > 0.05 * plain.norm(), option


def signature() -> None:
    """slime calls the hook by position with what the hook names."""
    import inspect

    policy_loss: Any = import_module("slime.backends.megatron_utils.loss").policy_loss_function
    theirs, ours = (list(inspect.signature(f).parameters) for f in (policy_loss, hooks.policy_loss))
    assert ours == theirs
