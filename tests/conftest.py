"""Pytest's settings for every test."""

import signal


def pytest_configure() -> None:
    """A shell has what it starts in the background ignore Ctrl-C, and so would the programs that
    the tests start and interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a case of bytes by its argument: packed bytes hold the time, and workers must agree."""
    return argname if isinstance(val, bytes) else None
