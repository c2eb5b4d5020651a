"""Load a model and serve it until told to stop."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path
from typing import Any

import torch
from aiohttp import web
from transformers import AutoTokenizer

from spader_slime.local.engine.info import Served
from spader_slime.local.engine.prompts import Limits
from spader_slime.local.engine.runner import Runner
from spader_slime.local.engine.scheduler import Scheduler
from spader_slime.local.engine.server import Server
from spader_slime.retrieval.lifetime import exit_with_parent

DEFAULT_CONTEXT = 4096


def serve(
    model: Path,
    host: str = "127.0.0.1",
    port: int = 30000,
    *,
    threads: int = 1,
    max_running: int = 192,
    context_length: int | None = None,
    die_with_parent: bool = False,
) -> None:
    """Serve the Hugging Face folder `model`; prints `engine: URL` once it does.

    Args:
        threads: of torch, on CPU.
        max_running: sequences sampled at once; as many rows of `context_length` tokens are kept in
            the key-value cache.
        context_length: input plus new tokens stay below it.

    Raises:
        EngineError: the model can't be loaded.
        OSError: the port is taken.
    """
    if die_with_parent:
        exit_with_parent()
    torch.set_num_threads(threads)
    listening = socket.create_server((host, port), backlog=2048)
    scheduler, served = load(model, max_running, context_length)
    scheduler.start()
    try:
        asyncio.run(_until_signal(Server(scheduler, served), listening))
    finally:
        scheduler.stop()


def load(model: Path, max_running: int, context: int | None) -> tuple[Scheduler, Served]:
    """The scheduler over a model, not yet started, and what there is to say about it."""
    runner, tokenizer = Runner(model), _tokenizer(model)
    context = context or runner.positions or DEFAULT_CONTEXT
    runner.reserve(max_running, context)
    scheduler = Scheduler(runner, frozenset(_end_ids(runner, tokenizer)), tokenizer)
    limits = Limits(context, runner.vocab, tokenizer)
    return scheduler, Served(model, limits, runner.rows, runner.model.config)


def _tokenizer(model: Path) -> Any:
    try:
        return AutoTokenizer.from_pretrained(model, local_files_only=True)
    except (OSError, ValueError):
        return None


def _end_ids(runner: Runner, tokenizer: Any) -> set[int]:
    """End tokens by generation config, model config and tokenizer."""
    generation = getattr(runner.model, "generation_config", None)
    sources = (generation, runner.model.config, tokenizer)
    found: set[int] = set()
    for source in sources:
        value = getattr(source, "eos_token_id", None)
        found.update(value if isinstance(value, list) else [] if value is None else [value])
    return found


async def _until_signal(server: Server, listening: socket.socket) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    host, port = listening.getsockname()[:2]
    await run_server(server, listening, stop, f"engine: http://{host}:{port}")


async def run_server(
    server: Server, listening: socket.socket, stop: asyncio.Event, announcement: str = ""
) -> None:
    """Answer on `listening` until `stop` is set. A client that hangs up aborts its requests.

    Args:
        announcement: printed once requests are answered.
    """
    runner = web.AppRunner(
        server.app(), access_log=None, handler_cancellation=True, shutdown_timeout=2
    )
    await runner.setup()
    await web.SockSite(runner, listening, backlog=2048).start()
    if announcement:
        print(announcement, flush=True)
    await stop.wait()
    await runner.cleanup()
