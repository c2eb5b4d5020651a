"""Start the search service as a process of its own and wait until it answers."""

from __future__ import annotations

from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from spader_slime.errors import SearchError
from spader_slime.retrieval.child import ServerProcess


class SearchProcess(ServerProcess):
    """A search service on a free port of 127.0.0.1; `url` is that of its `/retrieve`.

    Raises:
        SearchError: (from `start`) it ended or did not answer in time; kind "connection".
    """

    def __init__(self, index: Path, port: int = 0, timeout_s: float = 60.0) -> None:
        options = ["--index", str(index), "--port", str(port)]
        super().__init__("spader_slime.retrieval", options, timeout_s)

    def answers(self) -> bool:
        try:
            urlopen(self.url.replace("/retrieve", "/health"), timeout=5).close()
        except (URLError, TimeoutError):
            return False
        return True

    def failure(self, reason: str) -> SearchError:
        return SearchError("connection", f"the service did not start: {reason}")
