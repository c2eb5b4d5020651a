"""Which server gets the next call."""

from __future__ import annotations

from contextlib import ExitStack

from spader_slime.agent.teacher_urls import Addresses


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_calls_spread_evenly() -> None:
    addresses, taken = Addresses(["a", "b", "c"]), []
    with ExitStack() as stack:
        for _ in range(9):
            taken.append(stack.enter_context(addresses.take()))
    assert sorted(taken) == sorted("abc" * 3)


def test_the_least_busy_is_taken() -> None:
    addresses = Addresses(["a", "b"])
    with addresses.take() as first:
        for _ in range(3):
            with addresses.take() as second:
                assert second != first
            with addresses.take() as third:
                assert third != first


def test_idle_ones_take_turns() -> None:
    addresses, taken = Addresses(["a", "b", "c"]), []
    for _ in range(6):
        with addresses.take() as url:
            taken.append(url)
    assert taken == [*"abcabc"]


def test_one_that_failed_rests_and_comes_back() -> None:
    clock = Clock()
    addresses = Addresses(["a", "b"], 30.0, clock)
    addresses.rest("a")
    for _ in range(3):
        with addresses.take() as url:
            assert url == "b"
    clock.now += 30.0
    with addresses.take() as url:
        assert url == "a"


def test_an_answer_ends_the_rest() -> None:
    addresses = Addresses(["a", "b"], 30.0, Clock())
    addresses.rest("a")
    addresses.welcome("a")
    with addresses.take() as url:
        assert url == "a"


def test_a_further_attempt_goes_elsewhere_even_to_one_that_rests() -> None:
    clock = Clock()
    addresses = Addresses(["a", "b", "c"], 30.0, clock)
    for url in "bca":
        addresses.rest(url)
        clock.now += 1.0
    with addresses.take(last="b") as url:
        assert url == "c"
    with addresses.take() as url:
        assert url == "b"


def test_a_single_server_is_always_tried() -> None:
    addresses = Addresses(["a"])
    addresses.rest("a")
    with addresses.take(last="a") as url:
        assert url == "a"
