from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from spader_slime.retrieval.batcher import Batcher

WAIT_S = 30


class Held:
    """Doubles numbers; each batch waits until it is let go."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.entered, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, items: list[int]) -> list[int]:
        self.batches.append(items)
        self.entered.release()
        assert self.go.acquire(timeout=WAIT_S)
        return [2 * item for item in items]


def test_callers_that_wait_share_a_batch() -> None:
    held = Held()
    batcher = Batcher[int, int]([held], most=4)
    first = batcher.submit([0])
    assert held.entered.acquire(timeout=WAIT_S)
    others = [batcher.submit(items) for items in ([1], [2, 3], [4, 5], [6, 7, 8, 9, 10], [])]
    for _ in range(5):
        held.go.release()
    assert first.result(WAIT_S) == [0]
    expected: list[list[int]] = [[2], [4, 6], [8, 10], [12, 14, 16, 18, 20], []]
    assert [future.result(WAIT_S) for future in others] == expected
    assert held.batches[:3] == [[0], [1, 2, 3], [4, 5]]
    assert held.batches[3:] == [[6, 7, 8, 9, 10], []]


def test_work_nobody_waits_for_is_not_done() -> None:
    held = Held()
    batcher = Batcher[int, int]([held], most=1)
    first = batcher.submit([0])
    assert held.entered.acquire(timeout=WAIT_S)
    given_up, wanted = batcher.submit([1]), batcher.submit([2])
    assert given_up.cancel()
    held.go.release(2)
    assert (first.result(WAIT_S), wanted.result(WAIT_S)) == ([0], [4])
    assert held.batches == [[0], [2]]


def test_an_error_reaches_every_caller_and_the_next_batch_runs() -> None:
    def fragile(items: list[int]) -> list[int]:
        if 13 in items:
            raise ValueError("unlucky")
        return items

    batcher = Batcher[int, int]([fragile], most=8)
    with pytest.raises(ValueError, match="unlucky"):
        batcher.submit([13]).result(WAIT_S)
    assert batcher.submit([1]).result(WAIT_S) == [1]


def test_two_devices_work_at_once() -> None:
    meeting = threading.Barrier(2, timeout=WAIT_S)

    def meet(items: list[int]) -> list[int]:
        meeting.wait()  # passes only if both are here
        return items

    batcher = Batcher[int, int]([meet, meet], most=1)
    futures: list[Future[list[int]]] = [batcher.submit([n]) for n in range(2)]
    assert [future.result(WAIT_S) for future in futures] == [[0], [1]]
