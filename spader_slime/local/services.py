"""The servers beside the trainer: search service and inference engine, each its own process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from spader_slime.errors import EngineError
from spader_slime.local.engine.launch import EngineProcess
from spader_slime.local.settings import TrainConfig
from spader_slime.local.teacher import teacher_policy
from spader_slime.local.world.build import WorldFiles
from spader_slime.retrieval.launch import SearchProcess


@dataclass(frozen=True)
class Services:
    """Addresses of the running servers."""

    search_url: str
    engine_url: str
    engine_port: int

    def publish(self, folder: Path, version: int) -> None:
        """Make the engine sample from the Hugging Face folder `folder` from now on.

        Raises:
            EngineError: the engine can't be reached or refuses the weights.
        """
        body = json.dumps({"model_path": str(folder), "weight_version": str(version)}).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(f"{self.engine_url}/update_weights_from_disk", body, headers)
        try:
            with urlopen(request, timeout=300) as reply:
                done = json.load(reply)
        except (URLError, TimeoutError, ValueError) as error:
            raise EngineError(f"weights were not updated: {error}") from error
        if not done.get("success"):
            raise EngineError(f"weights were not updated: {done.get('message')}")


@contextmanager
def services(config: TrainConfig, files: WorldFiles, model: Path) -> Iterator[Services]:
    """Run all servers on free ports of 127.0.0.1 until the block, or this process, ends.

    With `teacher.dir` that run's policy is one of them, and `spader.distillation.urls` names it.
    """
    limits = {"threads": config.engine.threads, "max_running": config.engine.max_running}
    room = config.rollout.max_context
    with ExitStack() as stack:
        search = stack.enter_context(SearchProcess(files.index))
        engine = stack.enter_context(EngineProcess(model, context_length=room, **limits))
        if (taught := teacher_policy(config)) is not None:  # it samples one token at most
            teacher = EngineProcess(taught, context_length=room + 1, **limits)
            config.spader.distillation.urls = [stack.enter_context(teacher).url]
        yield Services(search.url, engine.url, engine.port)
