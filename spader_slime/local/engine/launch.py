"""Start the engine as a process of its own and wait until it answers."""

from __future__ import annotations

import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from spader_slime.errors import EngineError


class EngineProcess:
    """An engine on a free port of 127.0.0.1; ends with this process at the latest.

    Attributes:
        url, port: where it listens, once started.
        process: the running child, or None.
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
        self._command = [sys.executable, "-m", "spader_slime.local.engine", "--die-with-parent"]
        self._command += ["--model", str(model), "--port", str(port), "--threads", str(threads)]
        self._command += ["--max-running", str(max_running)]
        if context_length is not None:
            self._command += ["--context-length", str(context_length)]
        self._timeout_s = timeout_s
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives with self)
        self.process: subprocess.Popen[bytes] | None = None
        self.url, self.port = "", 0

    def start(self) -> EngineProcess:
        """Returns itself once the engine listens.

        Raises:
            EngineError: it ended, or did not get ready within `timeout_s`.
        """
        deadline = time.monotonic() + self._timeout_s
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=self._errors)
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], deadline - time.monotonic())
        line = self.process.stdout.readline().decode() if ready else ""
        if not line:
            raise self._failure()
        self.url = line.split()[-1]
        self.port = int(self.url.rpartition(":")[2])
        return self

    def stop(self) -> None:
        """End the engine gently, then by force. Safe to call twice."""
        process, self.process = self.process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()

    def _failure(self) -> EngineError:
        self.stop()
        self._errors.seek(0)
        reason = self._errors.read()[-2000:].decode(errors="replace").strip()
        return EngineError(f"the engine did not start: {reason or 'no answer'}")

    def __enter__(self) -> EngineProcess:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()
