"""What the forward KL adds to the policy loss: peak memory and time, forward and backward.

    python benchmarks/forward_kl.py [--tokens 4096] [--vocab 151936] [--k 16] [--share 1.0]

Memory is the difference between two fresh processes, one with the plain policy loss, one with the
forward KL added; logits come from a small output layer, whose backward pass is part of both. Time
is that of the parts that are added, beside the log-probs with their backward pass. Float32; takes
about three times the logits in memory. With an accelerator both run there.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

import torch
import torch.distributed as dist
from timing import interleaved, table
from torch import Tensor

from spader_slime.megatron.forward_kl import GatedTokens, forward_kl, take_student
from spader_slime.megatron.losses import LossOptions, LossTokens, policy_loss
from spader_slime.megatron.vocab_parallel import log_probs_and_entropy

HIDDEN = 8
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Scene:
    """An output layer, sampled tokens, and what the teacher says of a share of them."""

    def __init__(self, options: argparse.Namespace) -> None:
        if not dist.is_initialized():
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        source = torch.Generator().manual_seed(0)
        tokens, self.vocab, self.tail = options.tokens, options.vocab, options.tail
        shapes = ((tokens, HIDDEN), (HIDDEN, self.vocab))
        made = [torch.randn(shape, generator=source).to(DEVICE) for shape in shapes]
        self.hidden, self.weight = made[0].requires_grad_(), made[1].requires_grad_()
        self.targets = torch.randint(self.vocab, (tokens,), generator=source).to(DEVICE)
        rows = torch.randperm(tokens, generator=source)[: round(options.share * tokens)].to(DEVICE)
        shape = len(rows), options.k
        ids = torch.randint(self.vocab, shape, generator=source).to(DEVICE)
        teacher = torch.randn(shape, generator=source).log_softmax(-1).to(DEVICE)
        self.gated = GatedTokens(rows, self.targets[rows], ids, teacher - 0.1)

    def logits(self) -> Tensor:
        return self.hidden @ self.weight

    def log_probs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        return log_probs_and_entropy(logits, self.targets, None, self.vocab)

    def plain(self, log_probs: Tensor, entropy: Tensor) -> Tensor:
        old, even = log_probs.detach(), torch.full_like(log_probs, 1 / len(log_probs))
        tokens = LossTokens(torch.randn_like(old), old, even)
        return policy_loss(log_probs, entropy.detach(), tokens, LossOptions())[0]

    def step(self, with_kl: bool) -> None:
        """Forward and backward of the whole loss."""
        logits = self.logits()
        if not with_kl:
            return self.plain(*self.log_probs(logits)).backward()
        logits, student = take_student(logits, self.gated, None)
        log_probs, entropy = self.log_probs(logits)
        divergence = forward_kl(student, self.gated, log_probs[self.gated.rows_M], self.tail)
        return (self.plain(log_probs, entropy) + divergence.mean()).backward()


def peak_mb(options: argparse.Namespace, with_kl: bool | None) -> float:
    """Peak megabytes of a process that takes two steps; None: of one that takes none."""
    return alone(_peak, options, with_kl)


def alone(work: Callable[..., Any], *inputs: Any) -> Any:
    """`work(*inputs)` in a fresh process: a peak is one of all that a process ever did."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(work, inputs)


def _peak(options: argparse.Namespace, with_kl: bool | None) -> float:
    scene = Scene(options)
    for _ in range(2):
        if with_kl is not None:
            scene.step(with_kl)
    if DEVICE == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def times(options: argparse.Namespace) -> dict[str, float]:
    """Seconds of the log-probs with their backward pass, and of what the forward KL adds."""
    scene = Scene(options)
    leaf = scene.logits().detach().requires_grad_()
    gradient = torch.zeros_like(leaf)
    log_probs = torch.zeros(len(scene.gated.rows_M), device=DEVICE, requires_grad=True)

    def own() -> None:
        values, _ = scene.log_probs(leaf)  # overwrites the leaf: all the same for its speed
        torch.autograd.grad(values, leaf, torch.ones_like(values))
        _wait()

    def added() -> None:
        logits, student = take_student(leaf, scene.gated, None)
        divergence = forward_kl(student, scene.gated, log_probs, scene.tail)
        ones = torch.ones_like(divergence)
        torch.autograd.grad((logits, divergence), leaf, (gradient, ones))
        _wait()

    return interleaved({"log-probs": own, "added": added}, options.rounds, {"added": 5})


def _wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def row(options: argparse.Namespace) -> list[Any]:
    nothing, plain, with_kl = (peak_mb(options, case) for case in (None, False, True))
    taken = alone(times, options)
    logits = options.tokens * options.vocab * 4 / 2**20
    return [
        f"tail {options.tail}",
        f"{logits:.0f} MB",
        f"{plain - nothing:.0f} MB",
        f"{with_kl - plain:.1f} MB",
        f"{(with_kl - plain) / logits:.2%}",
        f"{taken['log-probs']:.3f} s",
        f"{taken['added'] * 1e3:.1f} ms",
        f"{taken['added'] / taken['log-probs']:.2%}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--vocab", type=int, default=151_936)
    parser.add_argument("--k", type=int, default=16)
    parser.add_argument("--share", type=float, default=1.0, help="of tokens that are gated")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    header = ["", "logits", "plain loss", "added", "of logits", "log-probs", "added", "of them"]
    rows = [row(argparse.Namespace(**vars(options), tail=tail)) for tail in ("drop", "keep")]
    print(f"{options.tokens} tokens, vocabulary {options.vocab}, k {options.k}, {DEVICE}")
    print(table(header, rows))


if __name__ == "__main__":
    main()
