"""The sharded forward KL on real processes, each with a part of the vocabulary."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from spader_slime.algorithms.distillation import dense_forward_kl
from spader_slime.megatron.forward_kl import GatedTokens, forward_kl, take_student
from support.grids import quick_context

VOCAB = 101  # prime: 2 and 4 ranks need padding


@dataclass(frozen=True)
class Case:
    """`share` of `rows` tokens is gated; logits may be bfloat16."""

    k: int
    tail: str
    temperature: float = 1.0
    rows: int = 12
    share: float = 0.5
    dtype: torch.dtype = torch.float32
    seed: int = 0

    def make(self) -> tuple[Tensor, Tensor, GatedTokens, Tensor]:
        """Logits [N, V], targets [N], gated tokens, weights [2, N] of log-probs and divergences."""
        source = torch.Generator().manual_seed(self.seed)
        logits = (3 * torch.randn(self.rows, VOCAB, generator=source)).to(self.dtype)
        targets = torch.randint(VOCAB, (self.rows,), generator=source)
        gated = torch.randperm(self.rows, generator=source)[: round(self.share * self.rows)]
        teacher = torch.randn(len(gated), VOCAB, generator=source).log_softmax(-1).topk(self.k)
        tokens = GatedTokens(gated, targets[gated], teacher.indices, teacher.values)
        return logits, targets, tokens, torch.randn(2, self.rows, generator=source)


def dense(case: Case) -> tuple[Tensor, Tensor]:
    """float64 divergences [M] and gradient [N, V] of a loss with log-probs and divergences."""
    logits, targets, tokens, weights = case.make()
    leaf = logits.double().requires_grad_()
    own = (leaf / case.temperature).log_softmax(-1).gather(1, targets[:, None])[:, 0]
    teacher = tokens.teacher_MK.double()
    rows = leaf[tokens.rows_M]
    found = dense_forward_kl(rows, tokens.ids_MK, teacher, case.tail, case.temperature)
    weights = weights.double()
    (weights[0] @ own + weights[1, tokens.rows_M] @ found).backward()
    assert leaf.grad is not None
    return found.detach(), leaf.grad


def student_tail(case: Case) -> float:
    """The smallest mass that the student leaves outside the teacher's top k."""
    logits, _, tokens, _ = case.make()
    probs = (logits.double() / case.temperature).softmax(-1)[tokens.rows_M]
    tails = probs.scatter(1, tokens.ids_MK, 0.0).sum(1)
    return float(tails.min()) if len(tails) else 1.0


def sharded(cases: list[Case], ranks: int) -> list[tuple[Tensor, Tensor]]:
    """The same from `ranks` processes: divergences of rank 0, gradients put together (padded)."""
    context = quick_context()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        processes = [
            context.Process(target=_member, args=(rank, ranks, cases, folder))
            for rank in range(ranks)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert [p.exitcode for p in processes] == [0] * ranks
        found = [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(ranks)]
    return [
        (results[0][0], torch.cat([gradient for _, gradient in results], 1))
        for results in zip(*found, strict=True)
    ]


def _member(rank: int, ranks: int, cases: list[Case], folder: Path) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    torch.save([one_rank(case, rank, ranks) for case in cases], folder / f"{rank}.pt")
    dist.destroy_process_group()


def one_rank(case: Case, rank: int, ranks: int) -> tuple[Tensor, Tensor]:
    """What a rank of the running group computes: divergences [M], gradient of its columns."""
    from spader_slime.megatron.vocab_parallel import log_probs_and_entropy

    logits, targets, tokens, weights = case.make()
    leaf = _own_columns(logits, rank, ranks).requires_grad_()
    own, student = take_student(leaf.float().clone(), tokens, None, case.temperature)
    log_probs, _ = log_probs_and_entropy(own, targets, None, VOCAB, case.temperature)
    found = forward_kl(student, tokens, log_probs[tokens.rows_M], case.tail)
    (weights[0] @ log_probs + weights[1, tokens.rows_M] @ found).backward()
    assert leaf.grad is not None
    return found.detach(), leaf.grad


def _own_columns(logits: Tensor, rank: int, ranks: int) -> Tensor:
    width = -(-VOCAB // ranks)
    padding = 50 * torch.rand(len(logits), width * ranks - VOCAB)
    return torch.cat([logits, padding.to(logits.dtype)], 1)[:, rank * width :][:, :width].clone()
