"""A server as a child process: started, waited for, and ended by the one that needs it."""

from __future__ import annotations

import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import IO, TypeVar

from spader_slime.errors import SpaderError

Own = TypeVar("Own", bound="ServerProcess")


class ServerProcess:
    """A module that serves on 127.0.0.1; it ends with this process at the latest.

    The module takes `--die-with-parent`, and prints a line that ends in its URL once it listens.
    Use as a context manager, or call `start` and `stop`.

    Args:
        module: what `python -m` runs.
        options: its command line.
        timeout_s: for it to get ready.

    Attributes:
        url: as the server told it, once started.
        process: the running child, or None.
    """

    def __init__(self, module: str, options: Sequence[str], timeout_s: float) -> None:
        self._command = [sys.executable, "-m", module, *options, "--die-with-parent"]
        self._timeout_s = timeout_s
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives with self)
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self: Own) -> Own:
        """Returns itself once the server is ready.

        Raises:
            SpaderError: see `failure`; it ended, or was not ready within `timeout_s`.
        """
        deadline = time.monotonic() + self._timeout_s
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=self._errors)
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], self._timeout_s)
        line = self.process.stdout.readline().decode() if ready else ""
        if not line:
            raise self._failed()
        self.url = line.split()[-1]
        while not self.answers():
            if time.monotonic() >= deadline or self.process.poll() is not None:
                raise self._failed()
            time.sleep(0.02)
        return self

    def answers(self) -> bool:
        """Whether the server that listens answers too."""
        return True

    def failure(self, reason: str) -> SpaderError:
        """The error to raise when the server did not start."""
        return SpaderError(f"the server did not start: {reason}")

    def stop(self) -> None:
        """End the server gently, then by force. Safe to call twice."""
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

    def _failed(self) -> SpaderError:
        self.stop()
        self._errors.seek(0)
        said = self._errors.read()[-2000:].decode(errors="replace").strip()
        return self.failure(said or "no answer")

    def __enter__(self: Own) -> Own:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()
