"""Start the search service as a process of its own and wait until it answers."""

from __future__ import annotations

import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO
from urllib.error import URLError
from urllib.request import urlopen

from spader_slime.errors import SearchError


class SearchProcess:
    """A search service on a free port of 127.0.0.1; ends with this process at the latest.

    Use as a context manager, or call `start` and `stop`.

    Attributes:
        url: of its `/retrieve`, once started.
        process: the running child, or None.
    """

    def __init__(self, index: Path, port: int = 0, timeout_s: float = 60.0) -> None:
        self._index, self._port, self._timeout_s = index, port, timeout_s
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives with self)
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> SearchProcess:
        """Returns itself once `/health` answers.

        Raises:
            SearchError: it ended or did not answer within `timeout_s`; kind "connection".
        """
        deadline = time.monotonic() + self._timeout_s
        command = [sys.executable, "-m", "spader_slime.retrieval", "--index", str(self._index)]
        command += ["--port", str(self._port), "--die-with-parent"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors)
        self.url = self._announced_url(deadline)
        self._await_health(deadline)
        return self

    def stop(self) -> None:
        """End the service gently, then by force. Safe to call twice."""
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

    def _announced_url(self, deadline: float) -> str:
        assert self.process is not None and self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], deadline - time.monotonic())
        line = self.process.stdout.readline().decode() if ready else ""
        if not line:
            raise self._failure()
        return line.split()[-1]

    def _await_health(self, deadline: float) -> None:
        assert self.process is not None
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                urlopen(self.url.replace("/retrieve", "/health"), timeout=5).close()
                return
            except (URLError, TimeoutError):
                time.sleep(0.02)
        raise self._failure()

    def _failure(self) -> SearchError:
        self.stop()
        self._errors.seek(0)
        reason = self._errors.read()[-2000:].decode(errors="replace").strip()
        return SearchError("connection", f"the service did not start: {reason or 'no answer'}")

    def __enter__(self) -> SearchProcess:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
