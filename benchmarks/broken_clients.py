"""Clients that misbehave, and what a service should answer them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from search_load import Connection, head

OVERSIZED = json.dumps({"queries": ["x" * 1_200_000]}).encode()
WRONG = [
    (b"", 400),
    (b"{", 400),
    (b"\xff\xfe\x00", 400),
    (b"[]", 400),
    (b'{"queries": "oslo"}', 400),
    (b'{"queries": [1, 2]}', 400),
    (b'{"queries": ["a"], "top_k": "5"}', 400),
    (b'{"queries": ["a"], "top_k": -1}', 400),
    (b'{"queries": ["a"], "return_scores": 1}', 400),
    (json.dumps({"queries": ["a"] * 65}).encode(), 400),
    (OVERSIZED, 413),
]

Broken = Callable[[str, bytes, random.Random], str]


def hang_up_after_request(url: str, body: bytes, draw: random.Random) -> str:
    connection = Connection(url)
    connection.socket.sendall(head(len(body)) + body)
    connection.close()
    return ""


def hang_up_within_request(url: str, body: bytes, draw: random.Random) -> str:
    """Anywhere in the head or the body."""
    connection, whole = Connection(url), head(len(body)) + body
    connection.socket.sendall(whole[: draw.randrange(1, len(whole))])
    connection.close()
    return ""


def hang_up_within_answer(url: str, body: bytes, draw: random.Random) -> str:
    connection = Connection(url)
    connection.socket.sendall(head(len(body)) + body)
    connection.socket.recv(draw.randrange(1, 2000))
    connection.close()
    return ""


def wrong_request(url: str, body: bytes, draw: random.Random) -> str:
    """A body that is refused; afterwards the same connection serves a good one, unless closed."""
    sent, expected = draw.choice(WRONG)
    connection = Connection(url)
    try:
        status, answer = connection.post(sent)
        if status != expected or "error" not in json.loads(answer):
            return f"{sent[:40]!r} was answered {status} {answer[:80]!r}"
        if expected != 413 and connection.post(body)[0] != 200:
            return "a good request after a wrong one on the same connection failed"
    except (ConnectionError, BrokenPipeError):
        if expected != 413:  # the server may close while the rest is being sent
            return f"{sent[:40]!r}: the server hung up"
    finally:
        connection.close()
    return ""


def no_http(url: str, body: bytes, draw: random.Random) -> str:
    connection = Connection(url)
    connection.socket.sendall(draw.randbytes(200) + b"\r\n\r\n")
    try:
        status = connection.answer()[0]
    except (ConnectionError, StopIteration, ValueError):
        return ""
    finally:
        connection.close()
    return "" if status == 400 else f"garbage was answered {status}"


BROKEN: tuple[Broken, ...] = (
    hang_up_after_request,
    hang_up_within_request,
    hang_up_within_answer,
    wrong_request,
    wrong_request,
    no_http,
)
