"""Start the engine as a process of its own and wait until it listens."""

from __future__ import annotations

from pathlib import Path

from spader_slime.errors import EngineError
from spader_slime.retrieval.child import ServerProcess


class EngineProcess(ServerProcess):
    """An engine on a free port of 127.0.0.1.

    Raises:
        EngineError: (from `start`) it ended, or did not get ready in time.
    """

    def __init__(
        self,
        model: Path,
        *,
        threads: int = 1,
        max_running: int = 192,
        context_length: int | None = None,
        port: int = 0,
        timeout_s: float = 120.0,
    ) -> None:
        options = ["--model", str(model), "--port", str(port), "--threads", str(threads)]
        options += ["--max-running", str(max_running)]
        if context_length is not None:
            options += ["--context-length", str(context_length)]
        super().__init__("spader_slime.local.engine", options, timeout_s)

    @property
    def port(self) -> int:
        """Where it listens, once started; 0 before."""
        return int(self.url.rpartition(":")[2] or 0)

    def failure(self, reason: str) -> EngineError:
        return EngineError(f"the engine did not start: {reason}")
