"""A teacher's scores on slime's own way from samples to gradients on DP 2 x CP 2 x TP 2."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any

import torch
from contracts.checks_logging import check_logs
from contracts.checks_loss_ranks import OPTIMIZER_STEPS, own_columns, train_step
from contracts.forked import on_ranks
from contracts.loss_flags import loss_args
from contracts.real_slime import Manager, fetch
from contracts.taught_samples import taught_samples
from support.lessons import TEACHER
from support.step_loss import Coefficients, make_data, make_table, slow_loss
from support.taught_data import (
    THRESHOLD,
    TOP_K,
    slow_lesson,
    source_scores,
    subtracted,
    teacher_log_probs,
)

from spader_slime import adapter, hooks
from spader_slime.algorithms.zigzag import owned_rows
from spader_slime.megatron.distill import scores_of

REVERSE, FORWARD = 0.3, 0.7  # coefficients
DATA = make_data(noise=0.0)


@dataclass(frozen=True)
class Variant:
    """One configuration; without step options and a tail the loss is slime's own."""

    tail: str = "drop"
    ratio: str = "token"
    aggregate: str = "token"
    threshold: float = THRESHOLD
    flags: dict[str, Any] = field(default_factory=dict)

    @property
    def coefficients(self) -> Coefficients:
        plain = self.tail == "drop" and "step" not in (self.ratio, self.aggregate)
        return Coefficients(eps_clip_c=None) if plain else Coefficients()  # v0.3.1 has no dual clip

    def args(self, reverse: str = "hook", **changes: Any) -> Namespace:
        teacher = {"urls": [TEACHER], "top_k": TOP_K, "tail": self.tail, "reverse": reverse}
        teacher |= {"entropy_threshold": self.threshold, "reverse_kl_coef": REVERSE}
        loss = {"ratio": self.ratio, "aggregate": self.aggregate}
        spader = {"loss": loss, "distillation": teacher | {"forward_kl_coef": FORWARD}}
        path = f"{__name__}.policy_loss"
        fixed = {"spader": spader, "use_kl_loss": True, "custom_loss_function_path": path}
        return loss_args(**(fixed | asdict(self.coefficients) | self.flags | changes))


VARIANTS = {
    "drop": Variant(),
    "keep": Variant("keep"),
    "drop, by step": Variant("drop", "step", "step"),
    "keep, mean over steps": Variant("keep", "token", "step"),
    "recomputed": Variant("keep", flags={"recompute_loss_function": True}),
    "temperature, drop": Variant(flags={"rollout_temperature": 0.7}),
    "temperature, keep": Variant("keep", flags={"rollout_temperature": 0.7}),
    "all gated": Variant(threshold=0.0),
    "none gated": Variant("keep", threshold=9.0),
}
seen: list[int] = []


def policy_loss(args: Namespace, batch: dict[str, Any], logits: Any, mean: Any) -> Any:
    """The hook, after a look at every token: its scores are its own, its logits predict it."""
    mpu: Any = import_module("megatron.core").mpu
    place = (mpu.get_context_parallel_rank(), mpu.get_context_parallel_world_size())
    sources = source_scores(DATA, args.spader["distillation"]["entropy_threshold"])
    rows, ids = (found.tolist() for found in adapter.response_places(args, batch, logits))
    table, number = make_table(torch.float32), 0
    for tokens, said in zip(batch["unconcat_tokens"], scores_of(batch), strict=True):
        (i,) = [i for i, own in enumerate(DATA["tokens"]) if torch.equal(own, tokens)]
        total, response = DATA["total_lengths"][i], DATA["response_lengths"][i]
        mine = [t for part in owned_rows(total, response, *place) for t in range(*part)]
        assert torch.equal(said.pack(), sources[i].at(torch.tensor(mine, dtype=torch.long)).pack())
        for t in mine:
            position = total - response + t
            assert ids[number] == tokens[position]
            predicting = own_columns(table[tokens[position - 1]])
            assert torch.equal(logits[0, rows[number]].detach(), predicting.detach())
            number += 1
    assert number == len(rows)
    seen.append(number)
    return hooks.policy_loss(args, batch, logits, mean)


def rollout_data(args: Namespace, cp: int) -> dict[str, Any]:
    """What slime's actor holds on this rank before its advantages."""
    dp = import_module("megatron.core").mpu.get_data_parallel_world_size()
    manager = Manager(args, hooks.post_process_rewards, dp=dp, cp=cp)
    data = fetch(args, manager.split(manager.convert(taught_samples(DATA))))
    positions = data.get("partition") or data["rollout_ids"]
    cut: Any = import_module("slime.backends.megatron_utils.cp_utils").slice_log_prob_with_cp
    for key in ("log_probs", "ref_log_probs"):  # as the actor's own forward passes leave them
        lengths = (data["total_lengths"], data["response_lengths"])
        rows = zip([DATA[key][i] for i in positions], *lengths, strict=True)
        data[key] = [cut(*row) for row in rows]
    return data


def advantages(args: Namespace, cp: int) -> dict[str, Any]:
    data = rollout_data(args, cp)
    import_module("slime.backends.megatron_utils.loss").compute_advantages_and_returns(args, data)
    return data


def train(variant: Variant, cp: int = 2) -> list[Any]:
    """Metrics and gradients of the optimizer steps, slime's logging on the way."""
    args = variant.args()
    data, scores = advantages(args, cp), source_scores(DATA, variant.threshold)
    said = teacher_log_probs(DATA, scores)
    check_logs(args, data, subtracted(DATA, scores, REVERSE), teacher_log_probs=said)
    batches: Any = import_module("slime.backends.megatron_utils.data")
    iterator = batches.DataIterator(data, data["micro_batch_indices"])
    pairs = zip(data["num_microbatches"], data["global_batch_sizes"], strict=True)
    return [train_step(args, iterator, *pair) for pair in pairs]


def check(name: str, number: int, metrics: dict[str, float], gradient: torch.Tensor) -> None:
    """Against the loop."""
    variant, samples, table = VARIANTS[name], OPTIMIZER_STEPS[number], make_table(torch.float64)
    scores = source_scores(DATA, variant.threshold)
    scaled = table / variant.flags.get("rollout_temperature", 1.0)
    options = (variant.ratio, variant.aggregate, variant.coefficients)
    loss, exact = slow_loss(subtracted(DATA, scores, REVERSE), scaled, samples, *options)
    value, more = slow_lesson(DATA, scaled, samples, variant.aggregate, scores, variant.tail)
    loss = loss + FORWARD * value
    loss.backward()
    assert table.grad is not None
    exact |= more | {"loss": loss.item()}
    assert metrics.keys() == exact.keys(), (name, metrics, exact)
    for key, wanted in exact.items():
        assert abs(metrics[key] - wanted) <= 1e-5 * max(abs(wanted), 0.1), (name, number, key)
    error = (gradient.double() - table.grad).norm() / table.grad.norm()
    assert error <= 1e-5, (name, number, float(error))


def on_three_axes() -> None:
    """Scores token by token, logs, loss and gradient on DP 2 x CP 2 x TP 2."""
    results = on_ranks(8, {"tensor_model_parallel_size": 2, "context_parallel_size": 2}, _trained)
    for name in VARIANTS:
        for number in range(len(OPTIMIZER_STEPS)):
            check(name, number, *results[0][name][0][number])
        looks = 1 + bool(VARIANTS[name].flags.get("recompute_loss_function"))
        tokens = sum(result[name][1] for result in results)
        assert tokens == 2 * looks * sum(DATA["response_lengths"]), name  # two tensor ranks
    assert 0.1 < results[0]["drop"][0][0][0]["gated_share"] < 0.9


def _trained() -> dict[str, Any]:
    found = {}
    for name, variant in VARIANTS.items():
        seen.clear()
        found[name] = (train(variant), sum(seen))
    return found
