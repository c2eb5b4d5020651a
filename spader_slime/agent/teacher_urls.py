"""Which of several equal servers gets the next call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

REST_S = 30.0


class Addresses:
    """The address with the fewest calls in flight; one that failed rests for a while.

    When all rest, the one whose rest ends first is tried: a call never waits for an address.
    """

    def __init__(
        self,
        urls: Sequence[str],
        rest_s: float = REST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._calls = dict.fromkeys(urls, 0)
        self._until = dict.fromkeys(urls, 0.0)
        self._used = dict.fromkeys(urls, 0)
        self._rest_s, self._clock, self._turn = rest_s, clock, 0

    @contextmanager
    def take(self, last: str | None = None) -> Iterator[str]:
        """An address, counted as busy inside; another than `last` where there is one."""
        url = self._pick(last)
        self._turn += 1
        self._used[url] = self._turn
        self._calls[url] += 1
        try:
            yield url
        finally:
            self._calls[url] -= 1

    def rest(self, url: str) -> None:
        """Leave `url` alone for a while."""
        self._until[url] = self._clock() + self._rest_s

    def welcome(self, url: str) -> None:
        """`url` has answered: it need not rest any longer."""
        self._until[url] = 0.0

    def _pick(self, last: str | None) -> str:
        now = self._clock()
        others = [url for url in self._calls if url != last] or list(self._calls)
        awake = [url for url in others if self._until[url] <= now]
        if not awake:
            return min(others, key=lambda url: (self._until[url], self._used[url]))
        return min(awake, key=lambda url: (self._calls[url], self._used[url]))
