"""Calls to a running engine, and the plain model to compare with."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from spader_slime.local.engine.info import Served
from spader_slime.local.engine.serve import load, run_server
from spader_slime.local.engine.server import Server


class Client:
    """Blocking calls; `many` sends several at once."""

    def __init__(self, url: str) -> None:
        self.url = url

    def call(self, path: str, body: Any = None) -> tuple[int, Any]:
        """(status, reply); the reply is JSON where it can be, else text. No body: GET."""
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        request = Request(self.url + path, raw, {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=60) as reply:
                return reply.status, _read(reply.read())
        except HTTPError as error:
            return error.code, _read(error.read())

    def ok(self, path: str, body: Any = None) -> Any:
        status, reply = self.call(path, body)
        assert status == 200, reply
        return reply

    def generate(self, ids: Sequence[int], **fields: Any) -> Any:
        """Sampling parameters by name; `_name` is a field of the request itself."""
        return self.ok("/generate", request(ids, **fields))

    def many(self, bodies: Sequence[Any], at_once: int = 64) -> list[Any]:
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(lambda body: self.ok("/generate", body), bodies))


@contextmanager
def serving(folder: Path, rows: int, context: int) -> Iterator[Client]:
    """An engine in this process, on a real socket."""
    with serving_with(*load(folder, rows, context)) as client:
        yield client


@contextmanager
def serving_with(scheduler: Any, served: Served) -> Iterator[Client]:
    """The engine's HTTP side over this scheduler."""
    scheduler.start()
    listening = socket.create_server(("127.0.0.1", 0))
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    work = run_server(Server(scheduler, served), listening, stop)
    thread = threading.Thread(target=loop.run_until_complete, args=(work,))
    thread.start()
    try:
        yield Client(f"http://127.0.0.1:{listening.getsockname()[1]}")
    finally:
        scheduler.stop()
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def request(ids: Sequence[int], **fields: Any) -> dict[str, Any]:
    own = {name[1:]: value for name, value in fields.items() if name.startswith("_")}
    params = {name: value for name, value in fields.items() if not name.startswith("_")}
    return {"input_ids": list(ids), "sampling_params": params, "return_logprob": True, **own}


def _read(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode()


def plain_model(folder: Path) -> Any:
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.eval()


def prompt(length: int, seed: int, vocab: int = 259) -> list[int]:
    """Random ids, special ones (below 3) left out."""
    source = random.Random(seed)
    return [source.randrange(3, vocab) for _ in range(length)]


def plain_log_probs(model: Any, ids: Sequence[int], temperature: float = 1.0) -> Tensor:
    """[len(ids), V]: row t is the distribution of the token after ids[: t + 1]."""
    with torch.no_grad():
        logits = model(torch.tensor([list(ids)])).logits[0].float()
    return (logits / temperature).log_softmax(-1)


def log_prob_gap(model: Any, ids: Sequence[int], reply: Any, temperature: float = 1.0) -> float:
    """Largest difference between the reply's output log-probs and the plain model's."""
    triples = reply["meta_info"]["output_token_logprobs"]
    output = reply["output_ids"]
    assert [t[1] for t in triples] == output and output
    plain = plain_log_probs(model, [*ids, *output], temperature)
    rows = range(len(ids) - 1, len(ids) + len(output) - 1)
    return max(
        abs(plain[r, t].item() - p) for r, t, (p, *_) in zip(rows, output, triples, strict=True)
    )
