"""Trajectories over the chat route and natively: over scripted text, or a model that learned it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from spader_slime.agent.chat import ChatPolicyClient
from spader_slime.agent.loop import run_episode
from spader_slime.episode import Episode
from spader_slime.local.engine.info import Served
from spader_slime.local.engine.jobs import Result, Scores
from spader_slime.local.engine.prompts import Limits
from spader_slime.local.engine.wire import GenerateRequest
from support.engines import Client, serving_with
from support.loops import QUESTION, QUICK_S, Stage, without_times

UNSURE = 0.2  # nats of a learned token at most: it has more than 80 % of the probability


class ScriptedScheduler:
    """In the place of the model: one text after the other. `prompts` are the ids of each call."""

    healthy, version = True, "3"

    def __init__(self, tokenizer: Any, texts: Sequence[str]) -> None:
        self._tokenizer, self._left = tokenizer, list(texts)
        self.prompts: list[list[int]] = []

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def submit(self, request: GenerateRequest, done: Callable[[Result], None]) -> None:
        self.prompts.append(request.input_ids.tolist())
        ids, reason = self._sample(self._left.pop(0), request)
        log_probs = [-0.5] * len(ids)
        done(Result(request, ids, log_probs, reason, Scores(), Scores(), 0, self.version, 0.0))

    def _sample(self, text: str, request: GenerateRequest) -> tuple[list[int], dict[str, Any]]:
        params, end = request.params, self._tokenizer.eos_token_id
        stops = {text.index(s) + len(s): s for s in params.stop if s in text}
        reason = {"type": "stop", "matched": stops[min(stops)] if stops else end}
        text = text[: min(stops)] if stops else text
        ids = self._tokenizer.encode(text, add_special_tokens=False) + ([] if stops else [end])
        limit = params.max_new_tokens
        if len(ids) > limit:
            return ids[:limit], {"type": "length", "length": limit}
        return ids, reason


@contextmanager
def scripted(tokenizer: Any, texts: Sequence[str]) -> Iterator[tuple[Client, ScriptedScheduler]]:
    """The embedded engine's own server over a script."""
    scheduler = ScriptedScheduler(tokenizer, texts)
    limits = Limits(9999, len(tokenizer), tokenizer)
    with serving_with(scheduler, Served(Path("m"), limits, 1, None)) as client:
        yield client, scheduler


async def by_chat(stage: Stage, url: str, messages: Any = None, **changes: Any) -> Episode:
    """A trajectory of the stage over the chat route at `url`."""
    client = ChatPolicyClient(url, "m", retries=2, backoff_s=QUICK_S, **changes)
    opening = messages or stage.protocol.messages(QUESTION)
    try:
        return await run_episode(client.joined(stage.context, opening))
    finally:
        await client.close()


def known(episode: Episode) -> dict[str, Any]:
    """All of an episode that both ways know: waiting times and log-probs left out."""
    plain = without_times(episode)
    plain.pop("log_probs")
    return plain


def learn(folder: Path, episodes: Sequence[Episode], steps: int = 1000) -> None:
    """Train the model in `folder` until it says every sampled token of `episodes` by itself."""
    torch.manual_seed(0)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    rows = [torch.tensor(e.prompt_ids + e.response_ids) for e in episodes]
    masks = [torch.tensor([0] * len(e.prompt_ids) + e.loss_mask) for e in episodes]
    ids_NT = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    sampled_NT = torch.nn.utils.rnn.pad_sequence(masks, batch_first=True)[:, 1:] == 1
    for _ in range(steps):
        logits = model(ids_NT).logits[:, :-1][sampled_NT]
        losses = torch.nn.functional.cross_entropy(
            logits, ids_NT[:, 1:][sampled_NT], reduction="none"
        )
        if losses.max() < UNSURE:
            model.save_pretrained(folder)
            return
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()
    raise AssertionError(f"not learned in {steps} steps: {float(losses.max()):.3f}")
